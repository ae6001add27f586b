-- What the film rental shop's application writes. Each block is a transaction; a block that begins with "once" is DDL and is
-- run once, in this order. :a, :b and :c are three random numbers from 0 to 999, anew for every transaction.

-- a film is lent
INSERT INTO public.rentals (rented, copy_id, customer_id, staff_id)
    SELECT now(), c.id, k.id, :c % 10 + 1 FROM public.copies c, public.customers k
    WHERE c.id = :a + 1 AND k.id = :b % 300 + 1 AND NOT EXISTS (SELECT FROM public.rentals r WHERE r.copy_id = c.id AND returned IS NULL);

-- it comes back and is paid
UPDATE public.rentals SET returned = now() WHERE id = (SELECT min(id) FROM public.rentals WHERE returned IS NULL AND id > :a * 2);
INSERT INTO public.payments (customer_id, staff_id, rental_id, amount, paid)
    SELECT customer_id, staff_id, id, :b % 900 + 0.99, timestamp '2026-01-01' + :c * interval '3 hours' FROM public.rentals WHERE id = :a + 1;

-- a payment is corrected, perhaps into another month
UPDATE public.payments SET paid = paid + interval '20 days', amount = amount + 0.01 WHERE id = :a * 2 + 1 AND amount < 900;

-- a film changes
UPDATE public.films SET description = 'Now a story of :b cats', rate = 1 + :c % 8, days = :c % 6 + 1, features = array_append(features, ':a') WHERE id = :a % 400 + 1;

-- a new film with performers and tags
INSERT INTO public.films (title, made, language_id, rating, words) VALUES ('New film :a', 1900 + :b % 200, :c % 6 + 1, 'PG-13', '');
INSERT INTO public.film_performers (performer_id, film_id, role) SELECT :b % 120 + 1, max(id), 'role :c' FROM public.films;
INSERT INTO public.film_tags SELECT max(f.id), min(t.name) FROM public.films f, public.tags t;

-- a film goes, with all that belongs to it
DELETE FROM public.films f WHERE id = :a % 400 + 1 AND NOT EXISTS (SELECT FROM public.copies WHERE film_id = f.id);
DELETE FROM public.films f WHERE id > 400 AND id % 10 = :b % 10;

-- a tag is renamed
UPDATE public.tags SET name = 'tag :b' WHERE name = (SELECT name FROM public.tags ORDER BY name OFFSET :a % 5 LIMIT 1) AND NOT EXISTS (SELECT FROM public.tags WHERE name = 'tag :b');

-- a customer moves
INSERT INTO public.addresses (line, district, city_id) VALUES (':a Side Street', 'new', :b % 60 + 1);
UPDATE public.customers SET address_id = (SELECT max(id) FROM public.addresses), until = CASE WHEN :c % 3 = 0 THEN NULL ELSE date 'infinity' END, email = NULL WHERE id = :a % 300 + 1;

-- a new customer
INSERT INTO public.customers (store_id, first_name, last_name, address_id) VALUES (:a % 2 + 1, 'New', 'Customer :b', :c % 350 + 1);

-- a customer who has never lent a film goes
DELETE FROM public.customers c WHERE id = 301 + :a % 50 AND NOT EXISTS (SELECT FROM public.rentals WHERE customer_id = c.id) AND NOT EXISTS (SELECT FROM public.invoices WHERE customer_id = c.id);

-- the till
INSERT INTO public.till_log VALUES (1, now(), 'sale :a', CASE WHEN :b % 12 = 0 THEN 'NaN' ELSE :b / 8.0 END, CASE WHEN :c % 8 = 0 THEN date 'infinity' ELSE date '2026-03-01' + :c END);
UPDATE public.till_log SET what = what || '.' WHERE ctid = (SELECT max(ctid) FROM public.till_log WHERE what < 'till :a');
DELETE FROM public.till_log WHERE ctid = (SELECT min(ctid) FROM public.till_log WHERE store_id = 2);

-- an invoice and a credit note
INSERT INTO public.invoices (customer_id, lines) VALUES (:a % 300 + 1, '[{"film": :b, "price": :c.10}, null, "ä"]');
INSERT INTO public.credit_notes (invoice, reason) SELECT max(number), 'late :a' FROM public.invoices;

-- reviews and reservations
INSERT INTO public.reviews SELECT :a % 400 + 1, :b % 300 + 1, :c % 5 + 1, repeat('word ', :c) ON CONFLICT (film_id, customer_id) DO UPDATE SET stars = 1, words = NULL;
UPDATE public.reservations SET state = 'collected', wanted = daterange('2026-04-01', '2026-04-01'::date + :a) WHERE customer_id = :b % 300 + 1;

-- coupons
INSERT INTO public.coupon_uses SELECT 'CODE' || :a % 20 + 1, :b + 1 ON CONFLICT DO NOTHING;
UPDATE public.coupon_uses SET rental_id = rental_id + 1000 WHERE code = 'CODE' || :a % 20 + 1 AND rental_id = :c % 100 + 1;
DELETE FROM public.coupon_uses WHERE rental_id = :b + 2;

-- takings of many days, half of it undone
UPDATE public.opening_days SET takings = takings + :a / 100.0, mask = (:b % 256)::bit(8) WHERE store_id = :c % 2 + 1;
SAVEPOINT half;
DELETE FROM public.opening_days;
ROLLBACK TO half;

-- two staff members are exchanged
UPDATE public.stores SET manager_id = manager_id + 100;
UPDATE public.stores SET manager_id = CASE id WHEN 1 THEN :a % 5 + 1 ELSE :b % 5 + 6 END;
UPDATE public.staff SET picture = decode(repeat(md5(':c'), 100), 'hex') WHERE id = :a % 10 + 1;

-- a category changes
UPDATE public.categories SET name = 'Category :a ' || id WHERE id = :b % 16 + 1;

-- once: a column with a default
ALTER TABLE public.copies ADD COLUMN state text DEFAULT 'good';
UPDATE public.copies SET state = 'scratched' WHERE id % 100 = 0;

-- once: an index
CREATE INDEX addresses_phone ON public.addresses (phone);

-- once: a table that is not published
CREATE SCHEMA reports; CREATE TABLE reports.monthly (month date, film_id int, lent int);
INSERT INTO reports.monthly SELECT '2026-01-01', id, 0 FROM public.films;

-- once: a column without a default
ALTER TABLE public.languages ADD COLUMN code char(2);
UPDATE public.languages SET code = chr(96 + id) || 'x';

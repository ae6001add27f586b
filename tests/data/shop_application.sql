-- What the shop's application writes. Each block is a transaction; a block that begins with "once" is DDL and is run once, in
-- this order. :a, :b and :c are three random numbers from 0 to 999, anew for every transaction.

-- a customer registers
INSERT INTO shop.customers (email, name, settings, born) VALUES ('new:a.:b.:c@shop.example', 'New :a', '{"limit": :b.00}', date '1960-01-01' + :c * 20);
INSERT INTO shop.customer_addresses (customer_id, kind, lines) SELECT id, 'billing', ARRAY['Street :a', 'a "b" \c'] FROM shop.customers WHERE email = 'new:a.:b.:c@shop.example';

-- an order
INSERT INTO shop.orders (placed_on, customer_id, ip) SELECT date '2026-02-01' + :a, id, '10.0.1.1' FROM shop.customers ORDER BY id OFFSET :b % 300 LIMIT 1;
INSERT INTO shop.order_lines (order_number, placed_on, line, product_id, quantity, price)
    SELECT o.number, o.placed_on, n, (:c + n) % 500 + 1, n, :c / 8.0 FROM generate_series(1, 3) n, (SELECT number, placed_on FROM shop.orders ORDER BY number DESC LIMIT 1) o;

-- an order goes on
UPDATE shop.orders SET state = (enum_range(NULL::shop.order_state))[:b % 5 + 1], message = CASE WHEN :c % 4 = 0 THEN repeat('long ', 2000) ELSE message END WHERE number = 700000 + :a * 10;

-- an order gets another day, perhaps of another partition
UPDATE shop.orders SET placed_on = placed_on + 200 WHERE number = 700000 + :a * 10 AND placed_on < '2026-12-01'
    AND NOT EXISTS (SELECT FROM shop.order_events e WHERE e.order_number = number) AND NOT EXISTS (SELECT FROM shop.payments p WHERE p.order_number = number);

-- a payment, and a part of it back
INSERT INTO shop.payments (id, order_number, placed_on, method, amount, token)
    SELECT md5('new :a :b :c')::uuid, number, placed_on, 'voucher', total, CASE WHEN :b % 2 = 0 THEN 'token :a :b :c' END FROM shop.orders WHERE number = 700000 + :a * 10;
INSERT INTO shop.refunds (payment_id, amount) SELECT id, :c / 4.0 FROM shop.payments ORDER BY id OFFSET :b % 600 LIMIT 1 ON CONFLICT (payment_id) DO UPDATE SET reason = 'again :c';

-- an order is deleted, with all that belongs to it
DELETE FROM shop.orders WHERE number = 700000 + :b * 10 AND state = 'cancelled';

-- a customer is forgotten
DELETE FROM shop.customers WHERE id = (SELECT id FROM shop.customers ORDER BY id OFFSET :a % 350 LIMIT 1) AND :b % 3 = 0;

-- a product changes
UPDATE shop.products SET price = price + 0.01, title = 'Running product :b of ' || id, attributes = attributes || '{"new": :c}', size = ROW(:c, 1.5, NULL)::shop.dimensions,
    tags = array_prepend('tag :c', tags[1:5]) WHERE id = :a % 500 + 1;

-- a product with variants
INSERT INTO shop.products (sku, title, price) VALUES ('NEW-:a', 'New thing :b', :c / 4.0);
INSERT INTO shop.variants (product_id, number, weight) SELECT id, n, :b / 7.0 FROM shop.products, generate_series(1, 3) n WHERE sku = 'NEW-:a';
DELETE FROM shop.products WHERE sku = 'NEW-:b' AND NOT EXISTS (SELECT FROM shop.order_lines WHERE product_id = products.id)
    AND NOT EXISTS (SELECT FROM stock.purchase_lines WHERE product_id = products.id);

-- a brand is renamed
UPDATE shop.brands SET name = 'Brand ' || :b % 30 + 20, site = NULL WHERE name = (SELECT name FROM shop.brands ORDER BY name OFFSET :a % 12 LIMIT 1)
    AND NOT EXISTS (SELECT FROM shop.brands WHERE name = 'Brand ' || :b % 30 + 20);

-- a cart
INSERT INTO shop.carts (customer_id) SELECT id FROM shop.customers ORDER BY id OFFSET :a % 300 LIMIT 1;
INSERT INTO shop.cart_lines (cart_id, product_id, variant) SELECT max(id), (SELECT min(product_id) FROM shop.variants WHERE product_id > :b % 490), 1 FROM shop.carts;
UPDATE shop.cart_lines SET quantity = quantity + 1 WHERE cart_id = :c % 150 + 1;
DELETE FROM shop.carts WHERE id = :b % 150 + 1;

-- prices, with values that are not in every database
UPDATE shop.prices SET price = CASE WHEN :b % 8 = 0 THEN 'NaN' ELSE :b * 1.000 END WHERE product_id = :a % 500 + 1;

-- goods are moved
INSERT INTO stock.movements (moved, warehouse, product_id, difference) SELECT date '2025-11-01' + :b % 200, warehouse, product_id, :c FROM stock.levels WHERE product_id = :a % 500 + 1;
UPDATE stock.movements SET moved = moved + 60 WHERE id = :b + 1 AND moved < '2026-10-01';

-- goods are reserved
UPDATE stock.levels SET reserved = LEAST(on_hand, :b % 90) WHERE product_id BETWEEN :a % 450 AND :a % 450 + 20;

-- a purchase
INSERT INTO stock.purchases (supplier_id, ordered) VALUES (:a % 15 + 1, date '2026-03-01' + :b % 100);
INSERT INTO stock.purchase_lines (purchase_id, product_id, quantity, price) SELECT max(id), :c % 500 + 1, :a + 1, :b / 3.0 FROM stock.purchases;
UPDATE stock.purchases SET arrives = ordered + 10, state = 'arrived' WHERE id = :c % 90 + 1;

-- a warehouse gets another code
UPDATE stock.warehouses SET code = 'X' || :a % 100 WHERE code = (SELECT code FROM stock.warehouses ORDER BY code OFFSET :b % 4 LIMIT 1) AND :c % 5 = 0
    AND NOT EXISTS (SELECT FROM stock.warehouses WHERE code = 'X' || :a % 100);

-- reviews come into the filter and leave it
UPDATE shop.reviews SET text = 'edited :c', hidden = NOT hidden WHERE id = :a % 400 + 1;
UPDATE shop.reviews SET id = -id WHERE id = :b % 400 + 1 AND :c % 5 = 0;
UPDATE shop.reviews SET id = -id WHERE id = -(:c % 400 + 1);

-- questions
UPDATE shop.questions SET internal_note = 'note :b', question = question || '?' WHERE id = :a % 80 + 1;
INSERT INTO shop.questions (product_id, question, internal_note) SELECT id, 'Why :b?', 'nobody knows' FROM shop.products WHERE id = :c % 500 + 1;

-- pages are seen
INSERT INTO shop.page_views VALUES (now(), '/n/:a', CASE WHEN :b % 10 = 0 THEN 'NaN' ELSE :b / 16.0 END, NULL, CASE WHEN :c % 10 = 0 THEN date 'infinity' ELSE '2026-05-02' END);
UPDATE shop.page_views SET path = path || '/' WHERE ctid = (SELECT max(ctid) FROM shop.page_views WHERE seconds > :a / 10.0 AND length(path) < 100);
DELETE FROM shop.page_views WHERE ctid = (SELECT min(ctid) FROM shop.page_views WHERE day > date '2020-01-01' + :b);

-- settings
INSERT INTO shop.settings VALUES ('key :a', to_jsonb(:b / 3.0), B'1', NULL) ON CONFLICT (key) DO UPDATE SET value = '[1, 2.50, "x"]', bits = B'11';
UPDATE shop.settings SET value = to_jsonb(:c) WHERE key = 'large';

-- vouchers and wishes
UPDATE shop.vouchers SET amount = amount + 0.5, used_by = (SELECT id FROM shop.customers ORDER BY id OFFSET :b % 300 LIMIT 1) WHERE code = 'V' || :a % 60 + 1;
UPDATE shop.wishes SET until = CASE :b % 3 WHEN 0 THEN date 'infinity' WHEN 1 THEN NULL ELSE date '2026-12-01' + :c % 20 END WHERE product_id = :a % 200 + 1;

-- once: a column with a default
ALTER TABLE shop.vouchers ADD COLUMN currency char(3) DEFAULT 'EUR';

-- once: an index
CREATE INDEX customers_registered ON shop.customers (registered);

-- once: a table that is not published
CREATE TABLE shop.experiments (id int PRIMARY KEY, name text, share numeric);
INSERT INTO shop.experiments VALUES (1, 'colors', 0.5);

-- once: a column without a default
ALTER TABLE stock.purchases ADD COLUMN remark text;
UPDATE stock.purchases SET remark = 'late' WHERE id % 4 = 0;

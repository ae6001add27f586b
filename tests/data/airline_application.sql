-- What the airline's application writes. Each block is a transaction; a block that begins with "once" is DDL and is run
-- once, in this order. :a, :b and :c are three random numbers from 0 to 999, anew for every transaction.

-- a passenger books two legs
INSERT INTO airline.passengers (name, born, email, phones, document)
    VALUES ('New passenger :a', date '1970-01-01' + :b, 'new:a.:b.:c@example.org', ARRAY[':c', NULL], decode(md5(':c'), 'hex'));
INSERT INTO airline.bookings (reference, booked, contact)
    VALUES (upper(substr(md5(':a :b :c'), 1, 6)), now(), '{"phone": ":a", "ratio": :b.50, "tags": [null, ":c"]}');
INSERT INTO airline.tickets (booking, passenger_id) SELECT upper(substr(md5(':a :b :c'), 1, 6)), max(id) FROM airline.passengers;
INSERT INTO airline.ticket_legs (ticket, flight_id, departs_on, amount)
    SELECT t.number, f.id, f.departs_on, :a / 7.0 FROM airline.flights f, (SELECT max(number) AS number FROM airline.tickets) t
    WHERE f.id IN (:b % 890 + 1, :b % 890 + 2);

-- the status of a flight changes
UPDATE airline.flights SET status = (enum_range(NULL::airline.flight_status))[:b % 5 + 1], delay = make_interval(mins => :c),
        changed = now()
    WHERE id = :a % 900 + 1;

-- a flight is moved to another day, perhaps of another partition
UPDATE airline.flights SET departs_on = date '2026-02-15' + :b % 200, departs = departs + interval '1 day' WHERE id = :a % 900 + 1
    AND NOT EXISTS (SELECT FROM airline.ticket_legs l WHERE l.flight_id = flights.id)
    AND NOT EXISTS (SELECT FROM airline.crew_duties d WHERE d.flight_id = flights.id)
    AND NOT EXISTS (SELECT FROM airline.flight_changes c WHERE c.flight_id = flights.id);

-- a booking is cancelled, with all that belongs to it
DELETE FROM airline.bookings WHERE reference = (SELECT reference FROM airline.bookings ORDER BY reference OFFSET :a % 600 LIMIT 1);

-- points
INSERT INTO airline.account_entries (passenger_id, year, entry, points, reason)
    SELECT passenger_id, 2023 + :b % 4, 1000 + :c * 1000 + :a, :c, 'flight' FROM airline.accounts ORDER BY passenger_id OFFSET :a % 390 LIMIT 1;
UPDATE airline.accounts SET points = points + :c, tier = CASE WHEN points > 2000 THEN 'gold' ELSE tier END
    WHERE passenger_id = (SELECT passenger_id FROM airline.accounts ORDER BY passenger_id OFFSET :a % 390 LIMIT 1);

-- weather, with values that are not in every database
INSERT INTO airline.weather VALUES ('AAX', date '2026-03-01' + :a, CASE WHEN :b % 10 = 0 THEN 'NaN' ELSE :b / 4.0 END,
        CASE WHEN :c % 10 = 0 THEN '-Infinity' ELSE :c::float8 END, 'remark :c'),
    ('ABX', CASE WHEN :a % 5 = 0 THEN date 'infinity' ELSE date '2026-03-01' + :a END, 1.5, NULL, NULL);
UPDATE airline.weather SET remark = 'seen :a' WHERE ctid = (SELECT min(ctid) FROM airline.weather WHERE pressure > 1000 + :b % 10);

-- old weather is forgotten
DELETE FROM airline.weather WHERE ctid = (SELECT max(ctid) FROM airline.weather WHERE day < date '2026-03-01' + :a);

-- an aircraft gets another tail number
UPDATE airline.aircraft SET tail = 'D-B' || lpad((:b % 100)::text, 3, '0'), retired = CASE WHEN :c % 2 = 0 THEN date 'infinity' ELSE '2030-01-01' END
    WHERE tail = (SELECT tail FROM airline.aircraft ORDER BY tail OFFSET :a % 40 LIMIT 1)
    AND NOT EXISTS (SELECT FROM airline.aircraft WHERE tail = 'D-B' || lpad((:b % 100)::text, 3, '0'));

-- boarding, and somebody changes the mind
SAVEPOINT boarding;
UPDATE airline.boarding_passes SET boarded = now() WHERE flight_id = :a % 900 + 1;
ROLLBACK TO boarding;
UPDATE airline.boarding_passes SET boarded = now(), seat = seat || 'x' WHERE flight_id = :b % 900 + 1 AND length(seat) < 4;

-- fares
UPDATE airline.fares SET price = price + 0.01 * (:b % 5), tax = :c / 100.0 WHERE route_id = :a % 60 + 1;

-- crews
UPDATE airline.crew SET chief_id = NULLIF(:b % 110 + 1, id), left_on = CASE WHEN :c % 4 = 0 THEN date '2026-12-31' END WHERE id = :a % 120 + 1;
DELETE FROM airline.crew WHERE id = 110 + :b % 10;
INSERT INTO airline.crew (name) VALUES ('Joined :a :b');

-- a maintenance
INSERT INTO airline.repairs (hangar, tail, during, cost)
    SELECT 10 + :a, min(tail), tstzrange(now(), now() + interval '1 hour'), CASE WHEN :b % 4 = 0 THEN 'NaN' ELSE :c * 0.001 END FROM airline.aircraft;

-- an announcement
UPDATE airline.announcements SET body = body || E'\n:a', valid = '{[2026-05-01 00:00+00,2026-05-02 00:00+00)}' WHERE airport = 'A' || chr(65 + :b % 8) || 'X';

-- many rows at once
INSERT INTO airline.parameters (name, value, changed_at) SELECT 'p:a :b ' || n, repeat('v', :c % 50), now() FROM generate_series(1, 60) n ON CONFLICT DO NOTHING;
UPDATE airline.parameters SET value = value || '!' WHERE name LIKE 'p:b %';
DELETE FROM airline.parameters WHERE name LIKE 'p:c %';

-- once: a column with a default
ALTER TABLE airline.crew ADD COLUMN languages int DEFAULT 2;

-- once: an index
CREATE INDEX crew_hired ON airline.crew (hired);

-- once: a table that is not published
CREATE SCHEMA reports; CREATE TABLE reports.daily (day date PRIMARY KEY, flights bigint);
INSERT INTO reports.daily SELECT departs_on, count(*) FROM airline.flights GROUP BY 1;

-- once: a column without a default
ALTER TABLE airline.accounts ADD COLUMN nickname varchar(30);
UPDATE airline.accounts SET nickname = 'Nick ' || passenger_id WHERE passenger_id % 3 = 0;

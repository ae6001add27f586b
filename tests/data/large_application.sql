-- What the application of the large schema writes. Each block is a transaction; a block that begins with "once" is DDL and is run
-- once, in this order. :a, :b and :c are three random numbers from 0 to 999, anew for every transaction. :a chooses the module.

-- a parent with a child
DO $$ BEGIN
    EXECUTE format('INSERT INTO %s (kind, name) VALUES (''k2'', ''New :b'')', public.place(:a % public.modules(), 'parents'));
    EXECUTE format('INSERT INTO %s (parent_id, label) SELECT max(id), ''new :c'' FROM %s', public.place(:a % public.modules(), 'children'), public.place(:a % public.modules(), 'parents'));
END $$;

-- a parent goes on
DO $$ BEGIN
    EXECUTE format('UPDATE %s SET standing = ''trusted'', name = ''Renamed :c'' WHERE id = :b %% 8 + 1', public.place(:a % public.modules(), 'parents'));
END $$;

-- a parent is deleted, with all that belongs to it
DO $$ BEGIN
    EXECUTE format('DELETE FROM %s WHERE id > 8 AND id %% 2 = 0', public.place(:a % public.modules(), 'parents'));
END $$;

-- an event gets another day, perhaps of another partition
DO $$ BEGIN
    EXECUTE format('DELETE FROM %s WHERE event_id = :b %% 8 + 1', public.place(:a % public.modules(), 'lines'));
    EXECUTE format('UPDATE %s SET day = CASE WHEN day < ''2026-01-01'' THEN day + 365 ELSE day - 365 END, amount = :c WHERE id = :b %% 8 + 1', public.place(:a % public.modules(), 'events'));
END $$;

-- notes are written and archived
DO $$ BEGIN
    EXECUTE format('INSERT INTO %s (id, child_id, text) VALUES (1000 + :b, :c %% 8 + 1, ''written'')', public.place(:a % public.modules(), 'notes'));
    EXECUTE format('INSERT INTO %s (id, child_id, text) VALUES (3000 + :b, :c %% 8 + 1, ''archived'')', public.place(:a % public.modules(), 'old_notes'));
    EXECUTE format('UPDATE ONLY %s SET text = ''changed :b'' WHERE id = :c %% 6 + 1', public.place(:a % public.modules(), 'notes'));
END $$;

-- a setting changes, in a table without a key
DO $$ BEGIN
    EXECUTE format('UPDATE %s SET value = ''{"n": :b}'', changed = now() WHERE name = ''setting 2''', public.place(:a % public.modules(), 'settings'));
END $$;

-- a kind is renamed, and everything that refers to it
DO $$ BEGIN
    EXECUTE format('UPDATE %s SET code = ''k:c'', weight = :b + 1 WHERE code = (SELECT max(code) FROM %1$s WHERE code <> ''k1'' AND code <> ''k2'')', public.place(:a % public.modules(), 'kinds'));
END $$;

-- once: an index
DO $$ BEGIN
    EXECUTE format('CREATE INDEX settings_name ON %s (name)', public.place(1, 'settings'));
END $$;

-- once: a column
DO $$ BEGIN
    EXECUTE format('ALTER TABLE %s ADD note varchar(20) DEFAULT ''added''', public.place(2, 'totals'));
    EXECUTE format('INSERT INTO %s (id, total) VALUES (100, 1)', public.place(2, 'totals'));
END $$;

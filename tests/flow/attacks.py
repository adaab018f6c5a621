"""Statements that try to see a masked e-mail address, one a line; none may."""

# people(id, email, country) is masked, orders(id, person) is not.
ATTACKS = r"""
SELECT email FROM people
SELECT * FROM people
SELECT people FROM people
SELECT p FROM people p
SELECT p.* FROM people p
SELECT (p).email FROM people p
SELECT (p).* FROM people p
SELECT row(p.*) FROM people p
SELECT to_jsonb(p) FROM people p
SELECT to_json(p) FROM people p
SELECT row_to_json(p) FROM people p
SELECT json_agg(p) FROM people p
SELECT jsonb_agg(p) FROM people p
SELECT json_build_object('x', p) FROM people p
SELECT p::text FROM people p
SELECT CAST(p AS text) FROM people p
SELECT concat(p) FROM people p
SELECT 'x' || p::text FROM people p
SELECT max(email) FROM people
SELECT min(email), country FROM people GROUP BY country
SELECT string_agg(email, ',') FROM people
SELECT array_agg(email) FROM people
SELECT ARRAY(SELECT email FROM people)
SELECT (SELECT email FROM people WHERE id = 1)
SELECT left(email, 3) FROM people
SELECT upper(email) FROM people
SELECT reverse(email) FROM people
SELECT replace(email, '@', '#') FROM people
SELECT substring(email FROM 1 FOR 4) FROM people
SELECT email || '' FROM people
SELECT coalesce(email, 'none') FROM people
SELECT CASE WHEN email LIKE 'a%' THEN 'starts with a' END FROM people
SELECT md5(email) FROM people
SELECT id FROM people WHERE email = 'a@x.io'
SELECT id FROM people WHERE email LIKE 'a%'
SELECT id FROM people ORDER BY email
SELECT count(*) FROM people WHERE email > 'a'
SELECT id FROM people GROUP BY id HAVING max(email) = 'a@x.io'
SELECT email AS id FROM people
SELECT x.e FROM (SELECT email AS e FROM people) x
SELECT x.b FROM people x(a, b, c)
SELECT b FROM people AS x(a, b, c)
TABLE people
(TABLE people)
SELECT * FROM (TABLE people) t
(SELECT email FROM people)
SELECT email FROM s.people
SELECT s.people.email FROM s.people
SELECT people.email FROM s.people
SELECT "email" FROM "s"."people"
SELECT EMAIL FROM PEOPLE
SELECT "people"."email" FROM people
SELECT U&"\0065mail" FROM people
SELECT email FROM "peopl\0065"
SELECT ｅｍａｉｌ FROM people
SELECT email/**/FROM/**/people
SELECT email FROM people -- harmless
SELECT/*+ hint */ email FROM people
/* SELECT 1 */ SELECT email FROM people
SELECT 1 FROM people; SELECT email FROM people
SELECT email FROM people;
;SELECT email FROM people
WITH x AS (SELECT * FROM people) SELECT email FROM x
WITH people AS (SELECT * FROM people) SELECT email FROM people
WITH people AS (SELECT * FROM s.people) SELECT email FROM people
WITH a AS (SELECT * FROM people), b AS (SELECT * FROM a) SELECT * FROM b
WITH RECURSIVE t AS (SELECT id, email FROM people UNION SELECT t.id, t.email FROM t) SELECT * FROM t
WITH x AS MATERIALIZED (SELECT * FROM people) SELECT * FROM x
WITH x AS (DELETE FROM people RETURNING *) SELECT * FROM x
WITH x AS (UPDATE people SET id = id RETURNING email) SELECT * FROM x
WITH x AS (INSERT INTO people VALUES (3) RETURNING email) SELECT * FROM x
SELECT * FROM (WITH people AS (SELECT 1 AS email) SELECT * FROM people) a, people
SELECT email FROM people UNION SELECT email FROM people
SELECT country FROM people EXCEPT SELECT email FROM people
SELECT country FROM people INTERSECT SELECT email FROM people
SELECT o.id, p.email FROM orders o JOIN people p ON p.id = o.person
SELECT * FROM orders NATURAL JOIN people
SELECT * FROM orders JOIN people USING (id)
SELECT * FROM people a JOIN people b ON a.email = b.email
SELECT * FROM orders o, LATERAL (SELECT email FROM people WHERE id = o.person) z
SELECT * FROM orders o CROSS JOIN LATERAL (SELECT * FROM people) z
SELECT * FROM orders WHERE EXISTS (SELECT 1 FROM people WHERE email = 'a@x.io')
SELECT * FROM orders WHERE person IN (SELECT id FROM people WHERE email LIKE 'a%')
SELECT * FROM (people) x
SELECT * FROM ONLY people
SELECT * FROM people TABLESAMPLE SYSTEM (100)
SELECT * FROM people FOR UPDATE
SELECT * FROM people FOR SHARE
SELECT email INTO copy FROM people
SELECT email INTO TEMP copy FROM people
VALUES ((SELECT email FROM people))
SELECT * FROM (VALUES ((SELECT email FROM people))) v
COPY people TO STDOUT
COPY (SELECT email FROM people) TO '/tmp/x'
COPY people TO PROGRAM 'cat'
EXPLAIN ANALYZE SELECT email FROM people
EXPLAIN (FORMAT JSON) SELECT email FROM people
PREPARE x AS SELECT email FROM people
EXECUTE x
DECLARE c CURSOR FOR SELECT email FROM people
FETCH ALL FROM c
CALL steal()
DO $$ BEGIN PERFORM 1; END $$
SET ROLE postgres
RESET ROLE
SHOW ALL
LISTEN x
CREATE TABLE copy AS SELECT email FROM people
CREATE VIEW v AS SELECT email FROM people
CREATE MATERIALIZED VIEW v AS SELECT email FROM people
INSERT INTO orders SELECT id, id FROM people
UPDATE people SET email = 'x' RETURNING email
DELETE FROM people RETURNING email
MERGE INTO orders USING people ON true WHEN MATCHED THEN DELETE
TRUNCATE people
GRANT SELECT ON people TO PUBLIC
ALTER TABLE people RENAME email TO mail
BEGIN; SELECT email FROM people; COMMIT
SELECT pg_read_file('/etc/passwd')
SELECT pg_read_binary_file('/etc/passwd')
SELECT pg_ls_dir('.')
SELECT lo_import('/etc/passwd')
SELECT lo_get(1)
SELECT dblink('dbname=x', 'SELECT email FROM s.people')
SELECT query_to_xml('SELECT email FROM s.people', true, true, '')
SELECT table_to_xml('s.people', true, true, '')
SELECT database_to_xml(true, true, '')
SELECT cursor_to_xml('c', 1, true, true, '')
SELECT ts_stat('SELECT email FROM s.people')
SELECT * FROM ts_stat('SELECT to_tsvector(email) FROM s.people')
SELECT s.leak()
SELECT leak()
SELECT * FROM leak()
SELECT * FROM s.leak() AS t(x)
SELECT * FROM ROWS FROM (leak()) AS t
SELECT * FROM generate_series(1, 2)
SELECT * FROM pg_catalog.pg_stats
SELECT most_common_vals FROM pg_stats WHERE tablename = 'people'
SELECT * FROM information_schema.columns
SELECT * FROM pg_stat_activity
SELECT * FROM pg_prepared_statements
SELECT relname FROM pg_class
SELECT 'people'::regclass
SELECT * FROM people_view
SELECT * FROM other.s.people
SELECT * FROM s.people.email
SELECT current_setting('x')
SELECT set_config('role', 'postgres', true)
SELECT pg_sleep(0)
SELECT nextval('s')
SELECT version()
SELECT current_user
SELECT pg_terminate_backend(1)
SELECT $1
SELECT :email
SELECT email FROM people WHERE id = $1
SELECT p.email FROM people p WHERE p.email IS NOT NULL
SELECT DISTINCT email FROM people
SELECT DISTINCT ON (email) id, email FROM people
SELECT first_value(email) OVER (ORDER BY id) FROM people
SELECT lag(email) OVER () FROM people
SELECT count(*) FILTER (WHERE email LIKE 'a%') FROM people
SELECT percentile_disc(0.5) WITHIN GROUP (ORDER BY email) FROM people
SELECT id FROM people WHERE email ~ '^a'
SELECT id FROM people WHERE email SIMILAR TO 'a%'
SELECT id FROM people WHERE (email, id) = ('a@x.io', 1)
SELECT id FROM people WHERE people = people
SELECT greatest(email, '') FROM people
SELECT CAST(email AS int) FROM people
SELECT 1 / (CASE WHEN email = 'a@x.io' THEN 0 ELSE 1 END) FROM people
SELECT email::int FROM people
SELECT xmlelement(name x, email) FROM people
SELECT format('%s', email) FROM people
SELECT hashtext(email) FROM people
SELECT jsonb_each(to_jsonb(p)) FROM people p
SELECT * FROM jsonb_each((SELECT to_jsonb(p) FROM people p LIMIT 1))
SELECT unnest(array_agg(email)) FROM people
SELECT ((((((((((email)))))))))) FROM people
"""  # noqa: RUF001

STATEMENTS = [line for line in ATTACKS.splitlines() if line.strip()]

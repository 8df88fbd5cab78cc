-- casts, a backslash in a text, a quoted name
SELECT id::bigint AS n, id::text || ' a\b' AS s, t."day"::timestamp AS at FROM t

-- ILIKE, now() and an interval
SELECT id FROM t WHERE name ILIKE 'a%' AND ts < now() - INTERVAL '4 weeks'

-- the order of NULL
SELECT id, ROW_NUMBER() OVER (PARTITION BY name ORDER BY price DESC) AS n FROM t ORDER BY id

-- arguments of functions
SELECT date_trunc('month', ts) AS m, strpos(name, 'x') AS p, concat(name, '!') AS c FROM t

-- aggregates
SELECT name, count(*) FILTER (WHERE id > 3) AS n, avg(rate) AS a FROM t GROUP BY name HAVING sum(id) > 10

-- a division by a floating-point number
SELECT id, id / rate AS r, id / 3.0::double precision AS s FROM t

-- refused: a division of whole numbers
SELECT id / 2 AS half FROM t

-- refused: rounding by a cast
SELECT price::int AS p FROM t

-- refused: DISTINCT ON, an array and a regular expression
SELECT DISTINCT ON (id) id, tags[1] FROM t
WHERE name ~ 'a'

-- refused: an order of texts
SELECT id FROM t WHERE name < 'm'

-- refused: a difference of days, and the day of the week
SELECT id FROM t WHERE day - DATE '2026-01-01' > 3 AND EXTRACT(DOW FROM ts) = 1

-- refused: an average of whole numbers
SELECT AVG(id) AS a FROM t

-- refused: unknown functions, each at its place
SELECT regexp_replace(name, 'a', 'b') AS a,
  to_char(ts, 'YYYY') AS b FROM t

-- refused: what the front end refuses, at the place in the original
SELECT t.id::bigint,
  t.nothing FROM t

-- refused: texts whose order or form another database decides
SELECT MIN(name) AS a, name::date AS b, rate::text AS c, CAST('3/4/2026' AS DATE) AS d FROM t

-- refused: the first names
SELECT name FROM t ORDER BY name LIMIT 3

-- refused: a part that the translation would lose
SELECT id FROM ONLY t

-- refused: names that hide the type of a column
SELECT u.id::int AS a FROM (SELECT price FROM t) AS u(id)

-- refused: a union of two types
SELECT v.id::int AS a FROM (SELECT id FROM t UNION SELECT price FROM t) v

-- refused: not SQL
SELECT FROM WHERE

-- a comma in FROM, and an instant in a text
SELECT a.id FROM t a, t b WHERE a.id = b.id AND a.ts > '2026-01-01'

-- refused: texts of unknown kinds, and by their place
SELECT MIN(u.a) AS m FROM (SELECT name FROM t) AS u(a) WHERE u.a < u.a

-- refused: the first names by their place
SELECT id, name FROM t ORDER BY 2 LIMIT 3

-- refused: a text as a number, and a decimal with an exponent
SELECT name::int AS a, 1e1 * price AS b, '5'::int AS c FROM t

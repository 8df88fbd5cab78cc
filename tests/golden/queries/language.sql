-- rows that end: staff of a room
SELECT s.name FROM staff AS s WHERE s.room = 'r1'

-- rows that end: rooms nobody is in any more
SELECT s.room FROM staff AS s JOIN users AS u ON u.name = s.name
WHERE NOT EXISTS (SELECT 1 FROM staff AS o WHERE o.room = s.room AND o.name <> s.name)

-- LIKE: prefix, suffix, part, none, and a real pattern
SELECT msgid FROM msgs WHERE sender LIKE 'a%' OR sender NOT LIKE '%b' OR sender LIKE '%c%' OR sender LIKE 'd' OR sender LIKE 'e_f'

-- arithmetic and functions
SELECT name, UPPER(name) AS loud, age * 2 + 1 AS n FROM users WHERE COALESCE(age, 0) % 2 = 1 AND LENGTH(name) > 3 AND - -age = 3

-- CASE, CAST, concatenation
SELECT CASE WHEN active THEN 'yes' ELSE 'no' END AS a, CAST(age AS STRING) || name AS b FROM users WHERE born >= DATE '1970-01-01'

-- a quote and a backslash in a string
SELECT name FROM users WHERE name = 'O\'Neil' OR name = 'a\\b'

-- USING
SELECT name, room, age FROM staff JOIN users USING (name) WHERE users.active

-- a decimal, a double, a large number
SELECT name FROM users WHERE age > 1.50 AND age < 1e3 AND age <> 3000000000

-- IN with NULL, negated
SELECT name FROM users WHERE name NOT IN ('a', 'b', NULL)

-- conditions that decide nothing
SELECT name FROM users WHERE TRUE AND NOT FALSE

-- an approximate aggregate
SELECT newsgroup, APPROX_COUNT_DISTINCT(sender) AS n FROM msgs GROUP BY newsgroup

-- an aggregate without an order
SELECT newsgroup, FIRST(subject) AS n FROM msgs GROUP BY newsgroup

-- a column outside GROUP BY
SELECT newsgroup, sender, COUNT(*) AS n FROM msgs GROUP BY newsgroup

-- an aggregate in WHERE
SELECT newsgroup FROM msgs WHERE COUNT(*) > 3

-- HAVING without groups
SELECT newsgroup FROM msgs HAVING newsgroup > 'a'

-- an aggregate over later outer rows
SELECT m.msgid FROM msgs m WHERE EXISTS (SELECT 1 FROM msgs r WHERE r.ts > m.ts HAVING COUNT(*) > 2)

-- a window function in WHERE
SELECT msgid FROM msgs WHERE ROW_NUMBER() OVER (ORDER BY ts) = 1

-- NOW() in the select list
SELECT msgid, NOW() - ts AS age FROM msgs

-- the month of NOW()
SELECT msgid FROM msgs WHERE MONTH(NOW()) = 4

-- rand()
SELECT msgid FROM msgs WHERE rand() < 0.1

-- UNION ALL of other types
SELECT msgid FROM msgs UNION ALL SELECT age FROM users

-- a file
SELECT * FROM text.`/etc/passwd`

-- a script
SELECT TRANSFORM(msgid) USING 'cat' FROM msgs

-- Java
SELECT reflect('java.lang.System', 'getenv', 'HOME') AS h FROM msgs

-- a misspelt column
SELECT msgid FROM msgs WHERE newsgrop = 'a'

-- a misspelt table
SELECT msgid FROM mesgs

-- a quote doubled
SELECT name FROM users WHERE name = 'O''Neil'

-- two statements
SELECT msgid FROM msgs; SELECT 1

-- no query
DELETE FROM msgs

-- a derived table
SELECT d.id FROM (SELECT msgid AS id, sender FROM msgs WHERE newsgroup = 'comp.databases') AS d WHERE d.sender = 'anna'

-- a derived table joined, with names for its columns
SELECT u.name, d.g FROM users AS u JOIN (SELECT sender, newsgroup FROM msgs) AS d(who, g) ON d.who = u.name

-- UNION: everyone who is known or has written
SELECT name FROM users UNION SELECT sender FROM msgs

-- UNION ALL of three, types brought together
SELECT msgid, 1 AS n FROM msgs UNION ALL SELECT name, age FROM users UNION ALL SELECT text, 1.5 FROM reminders

-- EXCEPT: users who have not written
SELECT name FROM users EXCEPT SELECT sender FROM msgs

-- INTERSECT binds tighter than UNION
SELECT name FROM users UNION SELECT sender FROM msgs INTERSECT SELECT name FROM staff

-- EXCEPT with time on both sides
SELECT msgid FROM msgs WHERE NOW() > ts + INTERVAL 1 DAY
EXCEPT SELECT inreplyto FROM msgs WHERE NOW() > ts + INTERVAL 2 DAYS

-- LEFT SEMI JOIN
SELECT m.msgid FROM msgs AS m LEFT SEMI JOIN users AS u ON u.name = m.sender AND u.active

-- LEFT ANTI JOIN: four weeks old and no reply
SELECT m.msgid FROM msgs AS m LEFT ANTI JOIN msgs AS r ON r.inreplyto = m.msgid WHERE m.ts < NOW() - INTERVAL 4 WEEKS

-- LEFT ANTI JOIN with USING, over a derived table that ends with time
SELECT u.name FROM users AS u LEFT ANTI JOIN (SELECT sender AS name FROM msgs WHERE ts > NOW() - INTERVAL 7 DAYS) AS r USING (name)

-- VALUES: some groups
SELECT m.msgid, g.label FROM msgs AS m JOIN (VALUES ('comp.databases', 'db'), ('sci.space', 'space')) AS g(name, label) ON g.name = m.newsgroup

-- VALUES alone: there when time begins
SELECT v.k FROM VALUES (1, 'a'), (2.5, NULL) AS v(k, x) WHERE v.x IS NULL

-- a common table expression, named twice
WITH late AS (SELECT msgid, inreplyto FROM msgs WHERE ts > NOW() - INTERVAL 1 DAY)
SELECT a.msgid FROM late AS a JOIN late AS b ON b.inreplyto = a.msgid

-- common table expressions on one another, one in a subquery
WITH a AS (SELECT name FROM users WHERE active), b(who) AS (SELECT name FROM a EXCEPT SELECT name FROM staff)
SELECT m.msgid FROM msgs AS m WHERE m.sender IN (WITH c AS (SELECT who FROM b) SELECT who FROM c)

-- DISTINCT inside
SELECT d.sender FROM (SELECT DISTINCT sender FROM msgs) AS d WHERE NOT EXISTS (SELECT DISTINCT u.name FROM users AS u WHERE u.name = d.sender)

-- a union under NOT EXISTS, with a row from outside
SELECT u.name FROM users AS u
WHERE NOT EXISTS (SELECT 1 FROM msgs AS m WHERE m.sender = u.name UNION SELECT 1 FROM staff AS s WHERE s.name = u.name)

-- NOT IN over a union
SELECT u.name FROM users AS u WHERE u.name NOT IN (SELECT sender FROM msgs UNION ALL SELECT name FROM staff)

-- two unions joined
SELECT a.x FROM (SELECT name AS x FROM users UNION ALL SELECT sender FROM msgs) AS a
JOIN (SELECT name AS x FROM staff UNION ALL SELECT text FROM reminders WHERE whenToRemind <= NOW()) AS b ON b.x = a.x

-- an alias that a subquery's table has as a column
SELECT sender.name FROM users AS sender WHERE sender.name NOT IN (SELECT m.sender FROM msgs AS m WHERE m.sender IS NOT NULL)

-- parentheses around subqueries
SELECT name FROM users WHERE EXISTS ((SELECT 1 FROM msgs)) AND name IN ((SELECT sender FROM msgs))

-- A subquery that gives a column of the row outside, where that is a column of a derived table
SELECT d.id FROM (SELECT msgid AS id, sender FROM msgs) AS d
WHERE d.id IN (SELECT d.id FROM users u WHERE u.name = d.sender)

-- VALUES as an arm of UNION, and in WITH
WITH wanted(name) AS (VALUES ('alice'), ('bob'))
SELECT u.name FROM users u WHERE u.name IN (SELECT w.name FROM wanted w UNION ALL VALUES ('carol'))

-- a derived table's column in the list of a subquery
SELECT d.k FROM (SELECT sender AS k FROM msgs) AS d WHERE d.k IN (SELECT d.k FROM users AS u WHERE u.active)

-- columns of USING come first
SELECT * FROM (SELECT age, name FROM users) AS a JOIN staff AS b USING (name)

-- parentheses around a union
SELECT name FROM users WHERE EXISTS ((SELECT 1 FROM msgs) UNION (SELECT 1 FROM staff))

-- VALUES on one side
SELECT name FROM users UNION VALUES ('nobody')

-- a sum named like one of its columns
SELECT a.age + a.age AS age FROM users AS a

-- LEFT JOIN: each row with its replies, or with NULL
SELECT m.msgid, r.sender FROM msgs AS m LEFT JOIN msgs AS r ON r.inreplyto = m.msgid AND NOT r.sender = m.sender

-- LEFT JOIN of which WHERE leaves the rows without a partner
SELECT m.msgid FROM msgs AS m LEFT JOIN msgs AS r ON r.inreplyto = m.msgid WHERE r.inreplyto IS NULL

-- FULL JOIN with USING
SELECT name, u.age, s.room FROM users AS u FULL JOIN staff AS s USING (name)

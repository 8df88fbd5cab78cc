-- thresholds of each length of time
SELECT id FROM reminders WHERE NOW() >= whenToRemind + INTERVAL 1 MICROSECOND AND NOW() >= ts + INTERVAL 3 MILLISECONDS AND NOW() > whenToRemind + INTERVAL 1 SECOND AND NOW() >= ts - INTERVAL 90 MINUTES AND NOW() > whenToRemind - INTERVAL 2 HOURS

-- an interval that is computed from a column
SELECT title FROM announcements WHERE NOW() >= ts + days * INTERVAL 1 DAY AND NOW() < expires

-- a staff member who has left, and nobody else in the room
SELECT s.name FROM staff AS s WHERE NOT EXISTS (SELECT 1 FROM staff AS o WHERE o.room = s.room AND o.name <> s.name)

-- what blocks ends with time, under two NOT EXISTS
SELECT m.msgid FROM msgs AS m WHERE NOT EXISTS (SELECT 1 FROM msgs AS r WHERE r.inreplyto = m.msgid AND r.ts > NOW() - INTERVAL 1 WEEK AND NOT EXISTS (SELECT 1 FROM staff AS s WHERE s.name = r.sender))

-- an EXISTS that becomes true with time
SELECT u.name FROM users AS u WHERE EXISTS (SELECT 1 FROM reminders AS r WHERE r.text = u.name AND r.whenToRemind <= NOW())

-- asked as it arrives, of another table
SELECT u.name FROM users AS u WHERE NOT EXISTS (SELECT 1 FROM msgs AS m WHERE m.sender = u.name) AND NOT EXISTS (SELECT 1 FROM staff AS s WHERE s.name = u.name)

-- asked as it arrives, of itself and of another
SELECT m.msgid FROM msgs AS m WHERE NOT EXISTS (SELECT 1 FROM msgs AS r, users AS u WHERE r.inreplyto = m.msgid AND u.name = r.sender)

-- a product of three tables
SELECT m.msgid FROM msgs AS m, users AS u, reminders AS r WHERE m.subject < u.name AND r.id > 3

-- conditions that exclude each other
SELECT msgid FROM msgs WHERE NOW() < ts

-- looked up over two steps, and by two columns of one table
SELECT a.msgid FROM msgs AS a, msgs AS b, users AS u WHERE b.inreplyto = a.msgid AND u.name = b.sender AND u.name = a.subject

-- a value that names no column
SELECT 1 AS k, u.age AS n FROM users AS u WHERE u.active AND NOW() > TIMESTAMP '2020-01-01 00:00:00'

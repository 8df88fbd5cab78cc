-- the last message of each thread: nobody replied to it, and it is a reply
SELECT m.msgid FROM msgs AS m
WHERE EXISTS (SELECT 1 FROM msgs AS p WHERE p.msgid = m.inreplyto)
  AND NOT EXISTS (SELECT 1 FROM msgs AS r WHERE r.inreplyto = m.msgid)

-- every reply has been replied to (NOT EXISTS in NOT EXISTS)
SELECT m.msgid FROM msgs AS m
WHERE NOT EXISTS (SELECT 1 FROM msgs AS r WHERE r.inreplyto = m.msgid
                  AND NOT EXISTS (SELECT 1 FROM msgs AS s WHERE s.inreplyto = r.msgid))

-- a name from two SELECTs out
SELECT m.msgid FROM msgs AS m
WHERE NOT EXISTS (SELECT 1 FROM msgs AS r WHERE r.inreplyto = m.msgid
                  AND EXISTS (SELECT 1 FROM msgs AS s WHERE s.inreplyto = r.msgid AND s.sender = m.sender))

-- under OR
SELECT m.msgid FROM msgs AS m
WHERE m.newsgroup = 'a' OR NOT EXISTS (SELECT 1 FROM msgs AS r WHERE r.inreplyto = m.msgid) OR NOW() > m.date

-- under NOT
SELECT m.msgid FROM msgs AS m
WHERE NOT (m.newsgroup = 'a' OR EXISTS (SELECT 1 FROM msgs AS r WHERE r.inreplyto = m.msgid))

-- NOT IN in NOT IN
SELECT u.name FROM users AS u
WHERE u.name NOT IN (SELECT m.sender FROM msgs AS m WHERE m.inreplyto NOT IN (SELECT a.title FROM announcements AS a))

-- the subquery's own table is a join
SELECT u.name FROM users AS u
WHERE EXISTS (SELECT 1 FROM msgs AS a JOIN msgs AS b ON b.inreplyto = a.msgid WHERE a.sender = u.name AND b.sender = u.name)

-- an inner name hides an outer one
SELECT m.msgid FROM msgs AS m WHERE EXISTS (SELECT 1 FROM users AS m WHERE m.name = 'a')

-- an alias that looks like a made-up one
SELECT r_was.msgid FROM msgs AS r_was WHERE NOT EXISTS (SELECT 1 FROM msgs AS r WHERE r.inreplyto = r_was.msgid)

-- NOW two levels down
SELECT u.name FROM users AS u
WHERE NOT EXISTS (SELECT 1 FROM msgs AS m WHERE m.sender = u.name
                  AND NOT EXISTS (SELECT 1 FROM msgs AS r WHERE r.inreplyto = m.msgid AND r.ts > NOW() - INTERVAL 1 DAY))

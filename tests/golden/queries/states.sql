-- groups with more than five messages
SELECT newsgroup, COUNT(*) AS n FROM msgs GROUP BY newsgroup HAVING COUNT(*) > 5

-- the first time that a group has more than five messages
SELECT newsgroup FROM msgs GROUP BY newsgroup HAVING COUNT(*) > 5

-- busy groups of the last day: a moving window
SELECT newsgroup, COUNT(*) AS n FROM msgs AS m WHERE ts > NOW() - INTERVAL 1 DAY GROUP BY newsgroup HAVING COUNT(*) > 5

-- messages with more than five replies: a join with an aggregate
SELECT m.msgid, r.n FROM msgs AS m JOIN (SELECT inreplyto, COUNT(*) AS n FROM msgs GROUP BY inreplyto) AS r
ON r.inreplyto = m.msgid WHERE r.n > 5

-- who replies to each message: an aggregate that is computed again for each group
SELECT m.msgid, r.n FROM msgs AS m JOIN (SELECT inreplyto, COUNT(DISTINCT sender) AS n FROM msgs GROUP BY inreplyto) AS r
ON r.inreplyto = m.msgid

-- the number of messages
SELECT COUNT(*) AS n FROM msgs

-- the number of senders: an aggregate without groups
SELECT COUNT(DISTINCT sender) AS senders FROM msgs

-- messages of each hour, and its final number
SELECT DATE_TRUNC('hour', ts) AS hour, COUNT(*) AS n FROM msgs GROUP BY DATE_TRUNC('hour', ts)

-- messages with their replies: a left join
SELECT m.msgid, r.msgid AS reply FROM msgs AS m LEFT JOIN msgs AS r ON r.inreplyto = m.msgid

-- the number of replies to each message: a left join inside an aggregate
SELECT m.msgid, COUNT(r.msgid) AS replies FROM msgs AS m LEFT JOIN msgs AS r ON r.inreplyto = m.msgid GROUP BY m.msgid

-- the size of the largest group: an aggregate of an aggregate
SELECT MAX(n) AS most FROM (SELECT newsgroup, COUNT(*) AS n FROM msgs GROUP BY newsgroup) AS g

-- messages of busy groups
SELECT msgid FROM msgs WHERE newsgroup IN (SELECT newsgroup FROM msgs GROUP BY newsgroup HAVING COUNT(*) > 5)

-- users with fewer than five messages
SELECT u.name FROM users AS u
WHERE NOT EXISTS (SELECT 1 FROM msgs AS m WHERE m.sender = u.name GROUP BY m.sender HAVING COUNT(*) >= 5)

-- people in each room, in a table whose rows end
SELECT room, COUNT(*) AS n FROM staff GROUP BY room

-- the final numbers of hopping windows
SELECT window.start AS begun, newsgroup, COUNT(*) AS n FROM msgs
GROUP BY WINDOW(ts, '10 minutes', '5 minutes'), newsgroup HAVING window.end <= NOW()

-- messages of each ten minutes
SELECT window.start AS begun, COUNT(*) AS n FROM msgs GROUP BY WINDOW(ts, '10 minutes')

-- numbers of each group and of all groups: ROLLUP
SELECT newsgroup, COUNT(*) AS n FROM msgs GROUP BY ROLLUP(newsgroup)

-- the three newest messages of each group: top-k
SELECT msgid, newsgroup FROM (SELECT msgid, newsgroup, ROW_NUMBER() OVER (PARTITION BY newsgroup ORDER BY ts DESC) AS r
FROM msgs) AS x WHERE r <= 3

-- the ten newest messages: LIMIT
SELECT msgid FROM msgs ORDER BY ts DESC LIMIT 10

-- the three busiest groups of the last week
SELECT newsgroup, COUNT(*) AS n FROM msgs WHERE ts > NOW() - INTERVAL 7 DAYS GROUP BY newsgroup ORDER BY n DESC LIMIT 3

-- the message before, of the same sender: LAG
SELECT msgid, LAG(msgid) OVER (PARTITION BY sender ORDER BY ts) AS earlier FROM msgs

-- the number of replies to each message: a subquery that is a value
SELECT m.msgid, (SELECT COUNT(*) FROM msgs AS r WHERE r.inreplyto = m.msgid) AS n FROM msgs AS m

-- copies of rows: EXCEPT ALL
SELECT msgid FROM msgs EXCEPT ALL SELECT inreplyto FROM msgs

-- each message of a thread, with the message that began it: WITH RECURSIVE
WITH RECURSIVE thread(msgid, root) AS (SELECT msgid, msgid FROM msgs WHERE inreplyto IS NULL UNION ALL
SELECT m.msgid, t.root FROM msgs AS m JOIN thread AS t ON m.inreplyto = t.msgid) SELECT msgid, root FROM thread

-- the size of a thread within a week: UNION
WITH RECURSIVE thread(msgid, root) AS (SELECT msgid, msgid FROM msgs WHERE inreplyto IS NULL AND ts > NOW() - INTERVAL 7 DAYS
UNION SELECT m.msgid, t.root FROM msgs AS m JOIN thread AS t ON m.inreplyto = t.msgid)
SELECT root, COUNT(*) AS n FROM thread GROUP BY root

-- reminders: the hour has come
SELECT id, text FROM reminders WHERE whenToRemind = NOW()

-- messages dated in the future
SELECT msgid, date FROM msgs WHERE date > NOW()

-- messages two to three weeks old
SELECT msgid FROM msgs WHERE NOW() BETWEEN ts + INTERVAL 2 WEEKS AND ts + INTERVAL 3 WEEKS

-- messages two to three weeks old, by their age
SELECT msgid FROM msgs WHERE NOW() - ts >= INTERVAL 14 DAYS AND NOW() - ts <= INTERVAL 21 DAYS

-- announcements that have not expired
SELECT id, title FROM announcements WHERE expires > NOW()

-- announcements by their days: an interval that is a column's
SELECT id, title FROM announcements WHERE NOW() < ts + days * INTERVAL 1 DAY

-- announcements that ended by their days: a NULL never ends
SELECT id, title FROM announcements WHERE NOW() >= ts + days * INTERVAL 1 DAY

-- messages with no reply in the last two weeks: no closed form
SELECT m1.msgid FROM msgs AS m1
WHERE NOT EXISTS (SELECT * FROM msgs AS m2 WHERE m2.inreplyto = m1.msgid AND m2.ts > NOW() - INTERVAL 2 WEEKS)

-- messages replied to within a day
SELECT m1.msgid FROM msgs AS m1
WHERE EXISTS (SELECT * FROM msgs AS m2 WHERE m2.inreplyto = m1.msgid AND m2.ts < m1.ts + INTERVAL 1 DAY)

-- replies of the last hour
SELECT m2.msgid FROM msgs AS m1 JOIN msgs AS m2 ON m2.inreplyto = m1.msgid WHERE m2.ts > NOW() - INTERVAL 1 HOUR

-- NOW on the right, moved
SELECT msgid FROM msgs WHERE ts + INTERVAL 2 DAYS < NOW() - INTERVAL '1 day 2 hours'

-- not equal to NOW
SELECT id FROM reminders WHERE whenToRemind <> NOW()

-- null-safe equality with NOW, negated
SELECT id FROM reminders WHERE NOT (whenToRemind <=> NOW())

-- NOW in a list
SELECT id FROM reminders WHERE NOW() IN (whenToRemind, whenToRemind + INTERVAL 1 DAY)

-- not between
SELECT id FROM reminders WHERE whenToRemind NOT BETWEEN NOW() AND NOW() + INTERVAL 1 WEEK

-- a constant threshold
SELECT msgid FROM msgs WHERE NOW() >= TIMESTAMP '1993-04-05 12:00:00' AND newsgroup = 'comp.databases'

-- either of two thresholds
SELECT id FROM announcements WHERE NOW() > expires OR NOW() > ts + INTERVAL 90 DAYS

-- never: the window is empty
SELECT msgid FROM msgs WHERE NOW() < ts AND NOW() >= ts

-- a date as a threshold
SELECT name FROM users WHERE NOW() >= born + INTERVAL 365 DAYS

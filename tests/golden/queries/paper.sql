-- Q1: messages of one group (paper, section 6)
SELECT * FROM msgs WHERE newsgroup = 'comp.databases'

-- Q2: messages of a family of groups
SELECT * FROM msgs WHERE newsgroup LIKE 'comp.sys.%'

-- Q3: messages that have a reply sent to comp.databases
SELECT m1.* FROM msgs AS m1, msgs AS m2 WHERE m2.inreplyto = m1.msgid AND m2.newsgroup = 'comp.databases'

-- Q4: messages more than four weeks old to which no one has replied
SELECT m1.msgid, m1.subject FROM msgs AS m1
WHERE m1.ts < NOW() - INTERVAL 4 WEEKS AND NOT EXISTS (SELECT * FROM msgs AS m2 WHERE m2.inreplyto = m1.msgid)

-- Q5: the first messages of reply chains longer than two
SELECT m1.* FROM msgs AS m1, msgs AS m2, msgs AS m3
WHERE m1.inreplyto IS NULL AND m2.inreplyto = m1.msgid AND m3.inreplyto = m2.msgid

-- messages without a reply two weeks after they were sent (section 4.3)
SELECT m1.msgid FROM msgs AS m1
WHERE m1.ts < NOW() - INTERVAL 2 WEEKS AND NOT EXISTS (SELECT * FROM msgs AS m2 WHERE m2.inreplyto = m1.msgid)

-- Q4 as NOT IN: what NULLs do to it
SELECT m1.msgid FROM msgs AS m1
WHERE m1.ts < NOW() - INTERVAL 4 WEEKS AND m1.msgid NOT IN (SELECT m2.inreplyto FROM msgs AS m2)

-- Q4 as NOT IN, the NULLs left out
SELECT m1.msgid FROM msgs AS m1
WHERE m1.ts < NOW() - INTERVAL 4 WEEKS
  AND m1.msgid NOT IN (SELECT m2.inreplyto FROM msgs AS m2 WHERE m2.inreplyto IS NOT NULL)

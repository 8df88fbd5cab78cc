"""The events and the queries of Nexmark: an auction site with persons, auctions and bids.

Of fifty consecutive events one is a person, three are auctions and forty-six are bids, as in the suite. The number of
an event determines all its columns. Most bids are for one of the last auctions.

The queries have the suite's numbers, in Spark's dialect. A window is a grouping expression. Two of them are left out:
11 groups by sessions, and 12 by the time at which a machine processes an event (``LEFT_OUT``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

COLUMNS: Final = {
    "person": "id BIGINT, name STRING, emailAddress STRING, creditCard STRING, city STRING, state STRING, "
    "dateTime TIMESTAMP, extra STRING",
    "auction": "id BIGINT, itemName STRING, description STRING, initialBid BIGINT, reserve BIGINT, "
    "dateTime TIMESTAMP, expires TIMESTAMP, seller BIGINT, category BIGINT, extra STRING",
    "bid": "auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, dateTime TIMESTAMP, extra STRING",
    "side_input": "key BIGINT, value STRING",
}
"""The columns of the tables. Query 13 joins bids with ``side_input``."""

_EVENT: Final = "make_timestamp({begin} + i // {together} * {together} * {step})"
_PERSONS: Final = "(1100 + i // 50)"
"""The last person before an event."""
_AUCTIONS: Final = "(1100 + i // 50 * 3 + LEAST(i % 50, 3) - 1)"
"""The last auction before an event."""
_GENERATED: Final = {
    "person": """
SELECT 1100 + i // 50 AS id, ['Peter', 'Paul', 'Luke', 'John', 'Saul', 'Vicky', 'Kate', 'Julie'][1 + {h1} % 8] AS name,
  'p' || i || '@example.org' AS emailAddress, ({h2} % 10000)::VARCHAR AS creditCard,
  ['Phoenix', 'Palo Alto', 'San Mateo', 'Boise', 'Portland', 'Bend', 'Seattle', 'Kent'][1 + {h3} % 8] AS city,
  ['AZ', 'CA', 'ID', 'OR', 'WA', 'WY'][1 + {h4} % 6] AS state, {at} AS "dateTime",
  repeat('e', ({h5} % 20)::INT) AS extra
FROM events WHERE i % 50 = 0""",
    "auction": """
SELECT {auctions} AS id, 'item ' || {h1} % 1000 AS itemName, 'about ' || {h2} % 1000 AS description,
  {h3} % 1000 AS initialBid, (1000 + {h4} % 1000)::BIGINT AS reserve, {at} AS "dateTime",
  {at} + INTERVAL 1 SECOND * (2 + {h5} % 20)::INT AS expires,
  GREATEST(1100, {persons} - {h6} % 4) AS seller, (10 + {h7} % 5)::BIGINT AS category,
  repeat('a', ({h8} % 20)::INT) AS extra
FROM events WHERE i % 50 BETWEEN 1 AND 3""",
    "bid": """
SELECT GREATEST(1100, {auctions} - CASE WHEN {h1} % 2 = 0 THEN 0 ELSE {h2} % 12 END::BIGINT) AS auction,
  GREATEST(1100, {persons} - {h3} % 6) AS bidder,
  (100 * pow(10, ({h4} % 600) / 100.0))::BIGINT AS price,
  ['Google', 'Facebook', 'Baidu', 'Apple', 'channel-' || {h5} % 30][1 + {h6} % 5] AS channel,
  'https://www.nexmark.com/' || ['abo', 'kcc', 'qzl'][1 + {h7} % 3] || '/' || {h8} % 10 || '/item.htm?query=1'
    || CASE WHEN {h5} % 2 = 0 THEN '&channel_id=' || {h5} % 30 ELSE '' END AS url,
  {at} AS "dateTime", repeat('c', ({h9} % 5)::INT) || 'x' AS extra
FROM events WHERE i % 50 > 3""",
    "side_input": "SELECT i AS key, 'value ' || i AS value FROM range({begin_key}, {begin_key} + 50) AS numbers(i)",
}


@dataclass(frozen=True)
class Events:
    """A stream of ``count`` events: the first at ``begin``, then one every ``step`` microseconds.

    ``together`` consecutive events happen at one instant.
    """

    count: int
    begin: int
    step: int
    together: int = 1

    def sql(self, table: str, low: int = 0, high: int | None = None) -> str:
        """Return DuckDB's query for the rows of a table, for the events numbered from ``low`` to before ``high``."""
        hashes = {f"h{n}": f"(hash(i + {n} * 1000003) % 1000000007)::BIGINT" for n in range(1, 10)}
        at = _EVENT.format(begin=self.begin, together=self.together, step=self.step)
        text = _GENERATED[table].format(at=at, persons=_PERSONS, auctions=_AUCTIONS, begin_key=1100, **hashes)
        events = f"SELECT i FROM range({low}, {self.count if high is None else high}) AS numbers(i)"
        return f"WITH events AS ({events}) {text.strip()}"

    def instants(self) -> range:
        """Return the instants at which events happen, in microseconds UTC."""
        width = self.step * self.together
        return range(self.begin, self.begin + self.step * self.count, width)


_WON: Final = """
  SELECT MAX(B.price) AS final, A.id, A.category, A.seller
  FROM auction A, bid B
  WHERE A.id = B.auction AND B.dateTime BETWEEN A.dateTime AND A.expires
  GROUP BY A.id, A.category, A.seller"""
_DAY: Final = "DATE_FORMAT(dateTime, 'yyyy-MM-dd')"
_PRICES: Final = """COUNT(*) AS total_bids,
  COUNT(*) FILTER (WHERE price < 10000) AS rank1_bids,
  COUNT(*) FILTER (WHERE price >= 10000 AND price < 1000000) AS rank2_bids,
  COUNT(*) FILTER (WHERE price >= 1000000) AS rank3_bids"""
_DISTINCT: Final = """COUNT(DISTINCT bidder) AS total_bidders,
  COUNT(DISTINCT bidder) FILTER (WHERE price < 10000) AS rank1_bidders,
  COUNT(DISTINCT bidder) FILTER (WHERE price >= 10000 AND price < 1000000) AS rank2_bidders,
  COUNT(DISTINCT bidder) FILTER (WHERE price >= 1000000) AS rank3_bidders,
  COUNT(DISTINCT auction) AS total_auctions,
  COUNT(DISTINCT auction) FILTER (WHERE price < 10000) AS rank1_auctions,
  COUNT(DISTINCT auction) FILTER (WHERE price >= 10000 AND price < 1000000) AS rank2_auctions,
  COUNT(DISTINCT auction) FILTER (WHERE price >= 1000000) AS rank3_auctions"""

QUERIES: Final = {
    "q0": "SELECT auction, bidder, price, dateTime, extra FROM bid",
    "q1": "SELECT auction, bidder, 0.908 * price AS price, dateTime, extra FROM bid",
    "q2": "SELECT auction, price FROM bid WHERE MOD(auction, 123) = 0",
    "q3": """
SELECT P.name, P.city, P.state, A.id FROM auction AS A INNER JOIN person AS P ON A.seller = P.id
WHERE A.category = 10 AND (P.state = 'OR' OR P.state = 'ID' OR P.state = 'CA')""",
    "q4": f"SELECT Q.category, AVG(Q.final) AS mean FROM ({_WON}) AS Q GROUP BY Q.category",
    "q5": """
SELECT B.auction, B.num
FROM (
  SELECT auction, COUNT(*) AS num, WINDOW(dateTime, '10 seconds', '2 seconds').start AS starttime
  FROM bid GROUP BY auction, WINDOW(dateTime, '10 seconds', '2 seconds')) AS B
JOIN (
  SELECT MAX(C.num) AS maxn, C.starttime
  FROM (
    SELECT COUNT(*) AS num, WINDOW(dateTime, '10 seconds', '2 seconds').start AS starttime
    FROM bid GROUP BY auction, WINDOW(dateTime, '10 seconds', '2 seconds')) AS C
  GROUP BY C.starttime) AS M
ON B.starttime = M.starttime AND B.num >= M.maxn""",
    "q6": """
SELECT Q.seller, AVG(Q.final) OVER (
    PARTITION BY Q.seller ORDER BY Q.dateTime, Q.id ROWS BETWEEN 10 PRECEDING AND CURRENT ROW) AS mean
FROM (
  SELECT A.id, A.seller, B.price AS final, B.dateTime,
    ROW_NUMBER() OVER (PARTITION BY A.id ORDER BY B.price DESC, B.dateTime, B.bidder) AS rownum
  FROM auction AS A, bid AS B
  WHERE A.id = B.auction AND B.dateTime BETWEEN A.dateTime AND A.expires) AS Q
WHERE Q.rownum <= 1""",
    "q7": """
SELECT B.auction, B.price, B.bidder, B.dateTime, B.extra
FROM bid AS B
JOIN (
  SELECT MAX(price) AS maxprice, WINDOW(dateTime, '10 seconds').end AS endtime
  FROM bid GROUP BY WINDOW(dateTime, '10 seconds')) AS M
ON B.price = M.maxprice
WHERE B.dateTime >= M.endtime - INTERVAL '10' SECOND AND B.dateTime < M.endtime""",
    "q8": """
SELECT P.id, P.name, P.starttime
FROM (
  SELECT id, name, WINDOW(dateTime, '10 seconds').start AS starttime
  FROM person GROUP BY id, name, WINDOW(dateTime, '10 seconds')) AS P
JOIN (
  SELECT seller, WINDOW(dateTime, '10 seconds').start AS starttime
  FROM auction GROUP BY seller, WINDOW(dateTime, '10 seconds')) AS A
ON P.id = A.seller AND P.starttime = A.starttime""",
    "q9": """
SELECT id, itemName, initialBid, reserve, expires, seller, category, bidder, price, bid_dateTime
FROM (
  SELECT A.id, A.itemName, A.initialBid, A.reserve, A.expires, A.seller, A.category, B.bidder, B.price,
    B.dateTime AS bid_dateTime,
    ROW_NUMBER() OVER (PARTITION BY A.id ORDER BY B.price DESC, B.dateTime, B.bidder) AS rownum
  FROM auction AS A, bid AS B
  WHERE A.id = B.auction AND B.dateTime BETWEEN A.dateTime AND A.expires) AS W
WHERE W.rownum <= 1""",
    "q10": f"""
SELECT auction, bidder, price, dateTime, extra, {_DAY} AS day, DATE_FORMAT(dateTime, 'HH:mm') AS minute
FROM bid""",
    "q13": """
SELECT B.auction, B.bidder, B.price, B.dateTime, S.value
FROM bid AS B JOIN side_input AS S ON B.auction = S.key""",
    "q14": """
SELECT auction, bidder, 0.908 * price AS price,
  CASE WHEN HOUR(dateTime) >= 8 AND HOUR(dateTime) <= 18 THEN 'dayTime'
    WHEN HOUR(dateTime) <= 6 OR HOUR(dateTime) >= 20 THEN 'nightTime' ELSE 'otherTime' END AS bidTimeType,
  dateTime, extra, LENGTH(extra) - LENGTH(REPLACE(extra, 'c', '')) AS c_counts
FROM bid
WHERE 0.908 * price > 1000000 AND 0.908 * price < 50000000""",
    "q15": f"SELECT {_DAY} AS day, {_PRICES},\n  {_DISTINCT}\nFROM bid GROUP BY {_DAY}",
    "q16": (
        f"SELECT channel, {_DAY} AS day, MAX(DATE_FORMAT(dateTime, 'HH:mm')) AS minute, {_PRICES},\n  {_DISTINCT}\n"
        f"FROM bid GROUP BY channel, {_DAY}"
    ),
    "q17": (
        f"SELECT auction, {_DAY} AS day, {_PRICES},\n  MIN(price) AS min_price, MAX(price) AS max_price, "
        f"AVG(price) AS avg_price, SUM(price) AS sum_price\nFROM bid GROUP BY auction, {_DAY}"
    ),
    "q18": """
SELECT auction, bidder, price, channel, url, dateTime, extra
FROM (
  SELECT *,
    ROW_NUMBER() OVER (PARTITION BY bidder, auction ORDER BY dateTime DESC, price, channel, url, extra) AS number
  FROM bid) AS B
WHERE B.number <= 1""",
    "q19": """
SELECT auction, bidder, price, channel, url, dateTime, extra, number
FROM (
  SELECT *,
    ROW_NUMBER() OVER (PARTITION BY auction ORDER BY price DESC, bidder, channel, url, dateTime, extra) AS number
  FROM bid) AS B
WHERE B.number <= 10""",
    "q20": """
SELECT B.auction, B.bidder, B.price, B.channel, B.url, B.dateTime, B.extra, A.itemName, A.description, A.initialBid,
  A.reserve, A.dateTime AS begins, A.expires, A.seller, A.category
FROM bid AS B INNER JOIN auction AS A ON B.auction = A.id
WHERE A.category = 10""",
    "q21": """
SELECT auction, bidder, price, channel,
  CASE WHEN LOWER(channel) = 'apple' THEN '0' WHEN LOWER(channel) = 'google' THEN '1'
    WHEN LOWER(channel) = 'facebook' THEN '2' WHEN LOWER(channel) = 'baidu' THEN '3'
    ELSE REGEXP_EXTRACT(url, '(&|^)channel_id=([^&]*)', 2) END AS channel_id
FROM bid
WHERE REGEXP_EXTRACT(url, '(&|^)channel_id=([^&]*)', 2) <> ''
  OR LOWER(channel) IN ('apple', 'google', 'facebook', 'baidu')""",
    "q22": """
SELECT auction, bidder, price, channel, SPLIT_PART(url, '/', 4) AS dir1, SPLIT_PART(url, '/', 5) AS dir2,
  SPLIT_PART(url, '/', 6) AS dir3
FROM bid""",
}
"""The queries by name. A ranking orders rows by further columns where the suite leaves the order of equal rows open."""

LEFT_OUT: Final = {
    "q11": "SELECT bidder, COUNT(*) AS bids FROM bid GROUP BY bidder, SESSION_WINDOW(dateTime, '10 seconds')",
    "q12": "SELECT bidder, COUNT(*) AS bids FROM bid GROUP BY bidder, WINDOW(PROCTIME(), '10 seconds')",
}
"""The queries that Weft refuses: sessions, and the time at which a machine processes an event."""

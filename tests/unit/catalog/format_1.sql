BEGIN TRANSACTION;
CREATE TABLE columns (
	table_id INTEGER NOT NULL, 
	column_id INTEGER NOT NULL, 
	name TEXT NOT NULL, 
	type TEXT NOT NULL, 
	nullable INTEGER NOT NULL, 
	PRIMARY KEY (table_id, column_id), 
	FOREIGN KEY(table_id) REFERENCES tables (table_id)
);
INSERT INTO "columns" VALUES(1,1,'a','BIGINT',1);
INSERT INTO "columns" VALUES(1,2,'ts','TIMESTAMP',0);
CREATE TABLE home (
	only INTEGER NOT NULL CHECK (only = 1), 
	home_id TEXT NOT NULL, 
	format INTEGER NOT NULL, 
	clock TEXT NOT NULL, 
	created_at BIGINT NOT NULL, 
	forward BIGINT NOT NULL, 
	last_ts BIGINT NOT NULL, 
	now BIGINT, 
	t0 BIGINT, 
	PRIMARY KEY (only)
);
INSERT INTO "home" VALUES(1,'00000000-0000-4000-8000-000000000001',1,'replay',10,300,200,300,100);
CREATE TABLE lease (
	only INTEGER NOT NULL CHECK (only = 1), 
	token BIGINT NOT NULL, 
	purpose TEXT, 
	holder TEXT, 
	acquired_at BIGINT, 
	expires_at BIGINT, 
	PRIMARY KEY (only)
);
INSERT INTO "lease" VALUES(1,1,'tests','host:1:1',0,600000000);
CREATE TABLE loads (
	load_id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, 
	table_id INTEGER NOT NULL, 
	source TEXT NOT NULL, 
	kind TEXT NOT NULL, 
	digest TEXT, 
	started_at BIGINT NOT NULL, 
	finished_at BIGINT, 
	stored BIGINT NOT NULL, 
	known BIGINT NOT NULL, 
	quarantined BIGINT NOT NULL, 
	late BIGINT NOT NULL, 
	FOREIGN KEY(table_id) REFERENCES tables (table_id)
);
INSERT INTO "loads" VALUES(1,1,'a.csv','file','abc',11,12,3,0,0,0);
CREATE TABLE outbox (
	entry_id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, 
	sub_id INTEGER NOT NULL, 
	first_ordinal BIGINT NOT NULL, 
	last_ordinal BIGINT NOT NULL, 
	state TEXT NOT NULL, 
	position TEXT, 
	attempts INTEGER NOT NULL, 
	last_error TEXT, 
	sent_at BIGINT, 
	UNIQUE (sub_id, first_ordinal), 
	FOREIGN KEY(sub_id) REFERENCES subscriptions (sub_id)
);
INSERT INTO "outbox" VALUES(1,1,1,2,'sent','{"offset": 0, "inode": 5}',0,NULL,19);
CREATE TABLE plans (
	plan_id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, 
	signature TEXT NOT NULL, 
	body TEXT NOT NULL, 
	UNIQUE (signature)
);
INSERT INTO "plans" VALUES(1,'shape','{"sql": "SELECT a FROM t WHERE a = 7", "from_now": false}');
INSERT INTO "plans" VALUES(2,'other','{"sql": "SELECT a FROM t WHERE a = 7", "from_now": false}');
CREATE TABLE quarantine (
	quarantine_id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, 
	load_id INTEGER NOT NULL, 
	table_id INTEGER NOT NULL, 
	source TEXT NOT NULL, 
	position TEXT NOT NULL, 
	reason TEXT NOT NULL, 
	sha256 TEXT NOT NULL, 
	size BIGINT NOT NULL, 
	options TEXT NOT NULL, 
	at BIGINT NOT NULL, 
	state TEXT NOT NULL, 
	UNIQUE (table_id, source, position, sha256), 
	FOREIGN KEY(load_id) REFERENCES loads (load_id), 
	FOREIGN KEY(table_id) REFERENCES tables (table_id)
);
INSERT INTO "quarantine" VALUES(1,1,1,'a.csv','7','torn','ff',9,'{}',12,'open');
CREATE TABLE queries (
	query_id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, 
	name TEXT NOT NULL, 
	folded TEXT NOT NULL, 
	user TEXT NOT NULL, 
	sql TEXT NOT NULL, 
	plan_id INTEGER NOT NULL, 
	parameters TEXT NOT NULL, 
	columns TEXT NOT NULL, 
	every_us BIGINT, 
	from_mode TEXT NOT NULL, 
	from_instant BIGINT, 
	tau BIGINT, 
	next_ordinal BIGINT NOT NULL, 
	state TEXT NOT NULL, 
	reason TEXT, 
	installed_at BIGINT NOT NULL, 
	removed_at BIGINT, 
	next_due BIGINT, 
	FOREIGN KEY(plan_id) REFERENCES plans (plan_id)
);
INSERT INTO "queries" VALUES(1,'a','a','ann','SELECT a FROM t',1,'[["BIGINT", 7]]','[["n", "BIGINT"]]',60,'start',NULL,300,3,'active',NULL,13,NULL,500);
INSERT INTO "queries" VALUES(2,'b','b','ann','SELECT a FROM t',1,'[["BIGINT", 8]]','[["n", "BIGINT"]]',NULL,'start',NULL,300,1,'active',NULL,14,NULL,NULL);
INSERT INTO "queries" VALUES(3,'gone','gone','ann','SELECT a FROM t',2,'[]','[["n", "BIGINT"]]',NULL,'start',NULL,NULL,1,'removed',NULL,15,16,NULL);
CREATE TABLE reservations (
	reservation_id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, 
	table_id INTEGER NOT NULL, 
	load_id INTEGER NOT NULL, 
	floor BIGINT NOT NULL, 
	token BIGINT NOT NULL, 
	state TEXT NOT NULL, 
	delta_version BIGINT, 
	rows BIGINT, 
	first_ts BIGINT, 
	last_ts BIGINT, 
	FOREIGN KEY(table_id) REFERENCES tables (table_id), 
	FOREIGN KEY(load_id) REFERENCES loads (load_id)
);
INSERT INTO "reservations" VALUES(1,1,1,-4611686018427387904,1,'committed',0,3,100,200);
CREATE TABLE stored_versions (
	path TEXT NOT NULL, 
	version BIGINT NOT NULL, 
	rows BIGINT NOT NULL, 
	PRIMARY KEY (path)
);
INSERT INTO "stored_versions" VALUES('tables/1-t',0,3);
INSERT INTO "stored_versions" VALUES('ledger',0,2);
CREATE TABLE subscriptions (
	sub_id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, 
	query_id INTEGER NOT NULL, 
	channel TEXT NOT NULL, 
	delivered BIGINT NOT NULL, 
	state TEXT NOT NULL, 
	attempts INTEGER NOT NULL, 
	next_attempt_at BIGINT, 
	last_error TEXT, 
	UNIQUE (query_id, channel), 
	FOREIGN KEY(query_id) REFERENCES queries (query_id)
);
INSERT INTO "subscriptions" VALUES(1,1,'file:a.jsonl',2,'active',0,NULL,NULL);
CREATE TABLE tables (
	table_id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, 
	name TEXT NOT NULL, 
	folded TEXT NOT NULL, 
	path TEXT NOT NULL, 
	keys TEXT NOT NULL, 
	ts_from TEXT, 
	rows BIGINT NOT NULL, 
	version BIGINT NOT NULL, 
	first_ts BIGINT, 
	last_ts BIGINT, 
	UNIQUE (folded)
);
INSERT INTO "tables" VALUES(1,'t','t','tables/1-t','["a"]',NULL,3,0,100,200);
CREATE TABLE tick_queries (
	tick_id INTEGER NOT NULL, 
	query_id INTEGER NOT NULL, 
	tau BIGINT, 
	rows BIGINT, 
	reason TEXT, 
	PRIMARY KEY (tick_id, query_id), 
	FOREIGN KEY(tick_id) REFERENCES ticks (tick_id), 
	FOREIGN KEY(query_id) REFERENCES queries (query_id)
);
INSERT INTO "tick_queries" VALUES(1,1,NULL,2,NULL);
INSERT INTO "tick_queries" VALUES(1,2,NULL,0,'nothing that arrived in t makes a new answer');
INSERT INTO "tick_queries" VALUES(2,1,300,NULL,NULL);
INSERT INTO "tick_queries" VALUES(2,2,300,NULL,NULL);
CREATE TABLE tick_versions (
	tick_id INTEGER NOT NULL, 
	path TEXT NOT NULL, 
	version BIGINT NOT NULL, 
	rows BIGINT NOT NULL, 
	PRIMARY KEY (tick_id, path), 
	FOREIGN KEY(tick_id) REFERENCES ticks (tick_id)
);
INSERT INTO "tick_versions" VALUES(1,'ledger',0,2);
CREATE TABLE ticks (
	tick_id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, 
	t BIGINT NOT NULL, 
	state TEXT NOT NULL, 
	token BIGINT NOT NULL, 
	planned_at BIGINT NOT NULL, 
	committed_at BIGINT, 
	ledger_version BIGINT
);
INSERT INTO "ticks" VALUES(1,300,'committed',1,17,18,0);
INSERT INTO "ticks" VALUES(2,400,'planned',1,20,NULL,NULL);
CREATE UNIQUE INDEX ticks_planned ON ticks (state) WHERE state = 'planned';
CREATE INDEX loads_digest ON loads (table_id, digest);
CREATE UNIQUE INDEX queries_live_name ON queries (folded) WHERE state <> 'removed';
CREATE INDEX quarantine_state ON quarantine (state);
CREATE INDEX reservations_open ON reservations (state) WHERE state = 'open';
CREATE INDEX tick_queries_by_query ON tick_queries (query_id, tick_id);
CREATE UNIQUE INDEX outbox_unsent ON outbox (sub_id) WHERE state <> 'sent';
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('tables',1);
INSERT INTO "sqlite_sequence" VALUES('loads',1);
INSERT INTO "sqlite_sequence" VALUES('reservations',1);
INSERT INTO "sqlite_sequence" VALUES('quarantine',1);
INSERT INTO "sqlite_sequence" VALUES('plans',2);
INSERT INTO "sqlite_sequence" VALUES('queries',3);
INSERT INTO "sqlite_sequence" VALUES('subscriptions',1);
INSERT INTO "sqlite_sequence" VALUES('ticks',2);
INSERT INTO "sqlite_sequence" VALUES('outbox',1);
COMMIT;

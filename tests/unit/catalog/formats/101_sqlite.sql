ALTER TABLE home ADD COLUMN rights_version BIGINT NOT NULL DEFAULT '0';
ALTER TABLE home ADD COLUMN rights_checked BIGINT NOT NULL DEFAULT '0';
ALTER TABLE home ADD COLUMN link_key TEXT;
ALTER TABLE queries ADD COLUMN needs TEXT NOT NULL DEFAULT '[]';
CREATE INDEX queries_by_user ON queries ("user", query_id);
CREATE TABLE users (user_id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL, folded TEXT NOT NULL, role TEXT NOT NULL,
state TEXT NOT NULL, password TEXT, most_queries BIGINT, most_rows BIGINT, most_seconds BIGINT,
digest TEXT, zone TEXT, added_at BIGINT NOT NULL, UNIQUE (folded));
CREATE TABLE groups (group_id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL, folded TEXT NOT NULL, UNIQUE (folded));
CREATE TABLE members (group_id INTEGER NOT NULL, user_id INTEGER NOT NULL, PRIMARY KEY (group_id,
user_id), FOREIGN KEY (group_id) REFERENCES groups (group_id), FOREIGN KEY (user_id) REFERENCES users
(user_id));
CREATE INDEX members_by_user ON members (user_id);
CREATE TABLE grants (subject_kind TEXT NOT NULL, subject_id INTEGER NOT NULL, "right" TEXT NOT NULL,
thing_kind TEXT NOT NULL, thing_key TEXT NOT NULL, granted_by TEXT NOT NULL, granted_at BIGINT NOT
NULL, PRIMARY KEY (subject_kind, subject_id, "right", thing_kind, thing_key));
CREATE INDEX grants_by_thing ON grants (thing_kind, thing_key);
CREATE TABLE secrets (secret_id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, kind TEXT NOT NULL, digest TEXT NOT NULL, user_id INTEGER,
query_id INTEGER, label TEXT, scopes TEXT, made_at BIGINT NOT NULL, expires_at BIGINT, UNIQUE
(digest), FOREIGN KEY (user_id) REFERENCES users (user_id), FOREIGN KEY (query_id) REFERENCES queries
(query_id));
CREATE INDEX secrets_by_query ON secrets (query_id);
CREATE INDEX secrets_by_user ON secrets (user_id);
CREATE TABLE audit (audit_id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, at BIGINT NOT NULL, "user" TEXT NOT NULL, door TEXT NOT NULL,
address TEXT, action TEXT NOT NULL, about TEXT, outcome TEXT NOT NULL);
CREATE INDEX audit_by_user ON audit ("user", audit_id);
CREATE TABLE marks (user_id INTEGER NOT NULL, query_id INTEGER NOT NULL, read_to BIGINT NOT NULL, PRIMARY
KEY (user_id, query_id), FOREIGN KEY (user_id) REFERENCES users (user_id), FOREIGN KEY (query_id)
REFERENCES queries (query_id));
CREATE TABLE mark_exceptions (user_id INTEGER NOT NULL, query_id INTEGER NOT NULL, ordinal BIGINT NOT
NULL, PRIMARY KEY (user_id, query_id, ordinal), FOREIGN KEY (user_id) REFERENCES users (user_id), FOREIGN
KEY (query_id) REFERENCES queries (query_id));
ALTER TABLE queries ADD COLUMN saved_id INTEGER;
CREATE TABLE saved_queries (saved_id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL, folded TEXT NOT NULL, sql TEXT NOT NULL,
parameters TEXT NOT NULL, owner TEXT NOT NULL, description TEXT NOT NULL, saved_at BIGINT NOT NULL, UNIQUE
(folded));

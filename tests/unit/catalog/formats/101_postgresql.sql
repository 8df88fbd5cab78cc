ALTER TABLE home ADD COLUMN rights_version BIGINT NOT NULL DEFAULT '0';
ALTER TABLE home ADD COLUMN rights_checked BIGINT NOT NULL DEFAULT '0';
ALTER TABLE home ADD COLUMN link_key TEXT COLLATE "C";
ALTER TABLE queries ADD COLUMN needs TEXT COLLATE "C" NOT NULL DEFAULT '[]';
CREATE INDEX queries_by_user ON queries ("user", query_id);
CREATE TABLE users (user_id SERIAL PRIMARY KEY, name TEXT COLLATE "C" NOT NULL, folded TEXT COLLATE "C" NOT NULL, role TEXT COLLATE "C" NOT NULL,
state TEXT COLLATE "C" NOT NULL, password TEXT COLLATE "C", most_queries BIGINT, most_rows BIGINT, most_seconds BIGINT,
digest TEXT COLLATE "C", zone TEXT COLLATE "C", added_at BIGINT NOT NULL, UNIQUE (folded));
CREATE TABLE groups (group_id SERIAL PRIMARY KEY, name TEXT COLLATE "C" NOT NULL, folded TEXT COLLATE "C" NOT NULL, UNIQUE (folded));
CREATE TABLE members (group_id INTEGER NOT NULL, user_id INTEGER NOT NULL, PRIMARY KEY (group_id,
user_id), FOREIGN KEY (group_id) REFERENCES groups (group_id), FOREIGN KEY (user_id) REFERENCES users
(user_id));
CREATE INDEX members_by_user ON members (user_id);
CREATE TABLE grants (subject_kind TEXT COLLATE "C" NOT NULL, subject_id INTEGER NOT NULL, "right" TEXT COLLATE "C" NOT NULL,
thing_kind TEXT COLLATE "C" NOT NULL, thing_key TEXT COLLATE "C" NOT NULL, granted_by TEXT COLLATE "C" NOT NULL, granted_at BIGINT NOT
NULL, PRIMARY KEY (subject_kind, subject_id, "right", thing_kind, thing_key));
CREATE INDEX grants_by_thing ON grants (thing_kind, thing_key);
CREATE TABLE secrets (secret_id SERIAL PRIMARY KEY, kind TEXT COLLATE "C" NOT NULL, digest TEXT COLLATE "C" NOT NULL, user_id INTEGER,
query_id INTEGER, label TEXT COLLATE "C", scopes TEXT COLLATE "C", made_at BIGINT NOT NULL, expires_at BIGINT, UNIQUE
(digest), FOREIGN KEY (user_id) REFERENCES users (user_id), FOREIGN KEY (query_id) REFERENCES queries
(query_id));
CREATE INDEX secrets_by_query ON secrets (query_id);
CREATE INDEX secrets_by_user ON secrets (user_id);
CREATE TABLE audit (audit_id SERIAL PRIMARY KEY, at BIGINT NOT NULL, "user" TEXT COLLATE "C" NOT NULL, door TEXT COLLATE "C" NOT NULL,
address TEXT COLLATE "C", action TEXT COLLATE "C" NOT NULL, about TEXT COLLATE "C", outcome TEXT COLLATE "C" NOT NULL);
CREATE INDEX audit_by_user ON audit ("user", audit_id);
CREATE TABLE marks (user_id INTEGER NOT NULL, query_id INTEGER NOT NULL, read_to BIGINT NOT NULL, PRIMARY
KEY (user_id, query_id), FOREIGN KEY (user_id) REFERENCES users (user_id), FOREIGN KEY (query_id)
REFERENCES queries (query_id));
CREATE TABLE mark_exceptions (user_id INTEGER NOT NULL, query_id INTEGER NOT NULL, ordinal BIGINT NOT
NULL, PRIMARY KEY (user_id, query_id, ordinal), FOREIGN KEY (user_id) REFERENCES users (user_id), FOREIGN
KEY (query_id) REFERENCES queries (query_id));
ALTER TABLE queries ADD COLUMN saved_id INTEGER;
CREATE TABLE saved_queries (saved_id SERIAL PRIMARY KEY, name TEXT COLLATE "C" NOT NULL, folded TEXT COLLATE "C" NOT NULL, sql TEXT COLLATE "C" NOT NULL,
parameters TEXT COLLATE "C" NOT NULL, owner TEXT COLLATE "C" NOT NULL, description TEXT COLLATE "C" NOT NULL, saved_at BIGINT NOT NULL, UNIQUE
(folded));

CREATE TABLE home (
    only INTEGER NOT NULL CHECK ("only" = 1),
    home_id TEXT NOT NULL,
    format INTEGER NOT NULL,
    clock TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    place TEXT,
    watermark BIGINT NOT NULL,
    last_ts BIGINT NOT NULL,
    now BIGINT,
    t0 BIGINT,
    PRIMARY KEY (only)
);
CREATE TABLE leases (
    name TEXT NOT NULL,
    token BIGINT NOT NULL,
    purpose TEXT,
    holder TEXT,
    acquired_at BIGINT,
    expires_at BIGINT,
    PRIMARY KEY (name)
);
CREATE TABLE plans (
    plan_id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    signature TEXT NOT NULL,
    body TEXT NOT NULL,
    UNIQUE (signature)
);
CREATE TABLE stored_versions (
    path TEXT NOT NULL,
    version BIGINT NOT NULL,
    rows BIGINT NOT NULL,
    PRIMARY KEY (path)
);
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
    tracked INTEGER DEFAULT '0' NOT NULL,
    UNIQUE (folded)
);
CREATE TABLE ticks (
    tick_id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    t BIGINT NOT NULL,
    state TEXT NOT NULL,
    token BIGINT NOT NULL,
    planned_at BIGINT NOT NULL,
    committed_at BIGINT
);
CREATE UNIQUE INDEX ticks_planned ON ticks (state) WHERE state = 'planned';
CREATE TABLE columns (
    table_id INTEGER NOT NULL,
    column_id INTEGER NOT NULL,
    name TEXT NOT NULL,
    type TEXT NOT NULL,
    nullable INTEGER NOT NULL,
    PRIMARY KEY (table_id, column_id),
    FOREIGN KEY(table_id) REFERENCES tables (table_id)
);
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
    state TEXT DEFAULT 'kept' NOT NULL,
    FOREIGN KEY(table_id) REFERENCES tables (table_id)
);
CREATE INDEX loads_digest ON loads (table_id, digest);
CREATE INDEX loads_undoing ON loads (load_id) WHERE state = 'undoing';
CREATE TABLE queries (
    query_id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL,
    folded TEXT NOT NULL,
    user TEXT NOT NULL,
    sql TEXT NOT NULL,
    plan_id INTEGER NOT NULL,
    parameters TEXT NOT NULL,
    columns TEXT NOT NULL,
    names TEXT DEFAULT '[]' NOT NULL,
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
    next_run BIGINT,
    reads TEXT DEFAULT '[]' NOT NULL,
    stratum INTEGER DEFAULT '0' NOT NULL,
    last_first_at BIGINT,
    replaced_at BIGINT,
    definitions TEXT DEFAULT '[]' NOT NULL,
    FOREIGN KEY(plan_id) REFERENCES plans (plan_id)
);
CREATE INDEX queries_by_plan ON queries (plan_id, state);
CREATE INDEX queries_defined ON queries (query_id) WHERE definitions <> '[]';
CREATE UNIQUE INDEX queries_live_name ON queries (folded) WHERE state <> 'removed';
CREATE INDEX queries_poll ON queries (state, plan_id, next_run, tau, from_instant, next_due);
CREATE INDEX queries_reading ON queries (query_id) WHERE reads <> '[]';
CREATE TABLE tick_outputs (
    tick_id INTEGER NOT NULL,
    name TEXT NOT NULL,
    path TEXT NOT NULL,
    state TEXT NOT NULL,
    version BIGINT,
    rows BIGINT,
    PRIMARY KEY (tick_id, name),
    FOREIGN KEY(tick_id) REFERENCES ticks (tick_id)
);
CREATE TABLE tick_versions (
    tick_id INTEGER NOT NULL,
    path TEXT NOT NULL,
    version BIGINT NOT NULL,
    rows BIGINT NOT NULL,
    PRIMARY KEY (tick_id, path),
    FOREIGN KEY(tick_id) REFERENCES ticks (tick_id)
);
CREATE TABLE active_loads (
    load_id INTEGER NOT NULL,
    holder TEXT NOT NULL,
    expires_at BIGINT NOT NULL,
    floor BIGINT,
    PRIMARY KEY (load_id),
    FOREIGN KEY(load_id) REFERENCES loads (load_id)
);
CREATE TABLE load_files (
    load_id INTEGER NOT NULL,
    number INTEGER NOT NULL,
    source TEXT NOT NULL,
    digest TEXT NOT NULL,
    PRIMARY KEY (load_id, number),
    FOREIGN KEY(load_id) REFERENCES loads (load_id)
);
CREATE INDEX load_files_digest ON load_files (digest);
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
CREATE INDEX quarantine_state ON quarantine (state);
CREATE TABLE replaced (
    query_id INTEGER NOT NULL,
    number INTEGER NOT NULL,
    sql TEXT NOT NULL,
    from_instant BIGINT,
    since BIGINT NOT NULL,
    until BIGINT NOT NULL,
    tau BIGINT,
    rows BIGINT NOT NULL,
    PRIMARY KEY (query_id, number),
    FOREIGN KEY(query_id) REFERENCES queries (query_id)
);
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
CREATE INDEX reservations_open ON reservations (state) WHERE state = 'open';
CREATE TABLE revisions (
    load_id INTEGER NOT NULL,
    table_id INTEGER NOT NULL,
    begins BIGINT NOT NULL,
    PRIMARY KEY (load_id),
    FOREIGN KEY(load_id) REFERENCES loads (load_id),
    FOREIGN KEY(table_id) REFERENCES tables (table_id)
);
CREATE INDEX revisions_by_table ON revisions (table_id);
CREATE TABLE subscriptions (
    sub_id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    query_id INTEGER NOT NULL,
    channel TEXT NOT NULL,
    delivered BIGINT NOT NULL,
    state TEXT NOT NULL,
    attempts INTEGER NOT NULL,
    next_attempt_at BIGINT,
    last_error TEXT,
    muted INTEGER DEFAULT '0' NOT NULL,
    round INTEGER DEFAULT '0' NOT NULL,
    digest TEXT,
    zone TEXT,
    digest_at BIGINT,
    UNIQUE (query_id, channel),
    FOREIGN KEY(query_id) REFERENCES queries (query_id)
);
CREATE INDEX subscriptions_by_channel ON subscriptions (channel);
CREATE TABLE tick_queries (
    tick_id INTEGER NOT NULL,
    query_id INTEGER NOT NULL,
    tau BIGINT,
    rows BIGINT,
    reason TEXT,
    until BIGINT,
    PRIMARY KEY (tick_id, query_id),
    FOREIGN KEY(tick_id) REFERENCES ticks (tick_id),
    FOREIGN KEY(query_id) REFERENCES queries (query_id)
);
CREATE INDEX tick_queries_by_query ON tick_queries (query_id, tick_id);
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
    round INTEGER DEFAULT '0' NOT NULL,
    reply TEXT,
    about TEXT,
    FOREIGN KEY(sub_id) REFERENCES subscriptions (sub_id)
);
CREATE INDEX outbox_by_subscription ON outbox (sub_id, entry_id);
CREATE UNIQUE INDEX outbox_unsent ON outbox (sub_id) WHERE state NOT IN ('sent', 'withdrawn');
CREATE TABLE sources (
    table_id INTEGER NOT NULL,
    kind TEXT NOT NULL,
    location TEXT NOT NULL,
    options TEXT NOT NULL,
    stamps TEXT NOT NULL,
    every_us BIGINT NOT NULL,
    added_at BIGINT NOT NULL,
    polled_at BIGINT,
    changed_at BIGINT,
    trouble TEXT,
    open_rows BIGINT NOT NULL,
    seen TEXT,
    next_seen TEXT,
    reservation_id INTEGER,
    PRIMARY KEY (table_id),
    FOREIGN KEY(table_id) REFERENCES tables (table_id),
    FOREIGN KEY(reservation_id) REFERENCES reservations (reservation_id)
);
CREATE TABLE views (
    table_id INTEGER NOT NULL,
    sql TEXT NOT NULL,
    form TEXT NOT NULL,
    reads TEXT NOT NULL,
    mode TEXT NOT NULL,
    added_at BIGINT NOT NULL,
    tau BIGINT,
    trouble TEXT,
    next_tau BIGINT,
    reservation_id INTEGER,
    depends_on_now INTEGER DEFAULT '0' NOT NULL,
    PRIMARY KEY (table_id),
    FOREIGN KEY(table_id) REFERENCES tables (table_id),
    FOREIGN KEY(reservation_id) REFERENCES reservations (reservation_id)
);

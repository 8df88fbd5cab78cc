CREATE TABLE home (
    "only" INTEGER NOT NULL CHECK ("only" = 1),
    home_id TEXT COLLATE "C" NOT NULL,
    format INTEGER NOT NULL,
    clock TEXT COLLATE "C" NOT NULL,
    created_at BIGINT NOT NULL,
    place TEXT COLLATE "C",
    watermark BIGINT NOT NULL,
    last_ts BIGINT NOT NULL,
    now BIGINT,
    t0 BIGINT,
    PRIMARY KEY ("only")
);
CREATE TABLE leases (
    name TEXT COLLATE "C" NOT NULL,
    token BIGINT NOT NULL,
    purpose TEXT COLLATE "C",
    holder TEXT COLLATE "C",
    acquired_at BIGINT,
    expires_at BIGINT,
    PRIMARY KEY (name)
);
CREATE TABLE plans (
    plan_id SERIAL NOT NULL,
    signature TEXT COLLATE "C" NOT NULL,
    body TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (plan_id),
    UNIQUE (signature)
);
CREATE TABLE stored_versions (
    path TEXT COLLATE "C" NOT NULL,
    version BIGINT NOT NULL,
    rows BIGINT NOT NULL,
    PRIMARY KEY (path)
);
CREATE TABLE tables (
    table_id SERIAL NOT NULL,
    name TEXT COLLATE "C" NOT NULL,
    folded TEXT COLLATE "C" NOT NULL,
    path TEXT COLLATE "C" NOT NULL,
    keys TEXT COLLATE "C" NOT NULL,
    ts_from TEXT COLLATE "C",
    rows BIGINT NOT NULL,
    version BIGINT NOT NULL,
    first_ts BIGINT,
    last_ts BIGINT,
    tracked INTEGER DEFAULT '0' NOT NULL,
    PRIMARY KEY (table_id),
    UNIQUE (folded)
);
CREATE TABLE ticks (
    tick_id SERIAL NOT NULL,
    t BIGINT NOT NULL,
    state TEXT COLLATE "C" NOT NULL,
    token BIGINT NOT NULL,
    planned_at BIGINT NOT NULL,
    committed_at BIGINT,
    PRIMARY KEY (tick_id)
);
CREATE UNIQUE INDEX ticks_planned ON ticks (state) WHERE state = 'planned';
CREATE TABLE columns (
    table_id INTEGER NOT NULL,
    column_id INTEGER NOT NULL,
    name TEXT COLLATE "C" NOT NULL,
    type TEXT COLLATE "C" NOT NULL,
    nullable INTEGER NOT NULL,
    PRIMARY KEY (table_id, column_id),
    FOREIGN KEY(table_id) REFERENCES tables (table_id)
);
CREATE TABLE loads (
    load_id SERIAL NOT NULL,
    table_id INTEGER NOT NULL,
    source TEXT COLLATE "C" NOT NULL,
    kind TEXT COLLATE "C" NOT NULL,
    digest TEXT COLLATE "C",
    started_at BIGINT NOT NULL,
    finished_at BIGINT,
    stored BIGINT NOT NULL,
    known BIGINT NOT NULL,
    quarantined BIGINT NOT NULL,
    late BIGINT NOT NULL,
    state TEXT COLLATE "C" DEFAULT 'kept' NOT NULL,
    PRIMARY KEY (load_id),
    FOREIGN KEY(table_id) REFERENCES tables (table_id)
);
CREATE INDEX loads_digest ON loads (table_id, digest);
CREATE INDEX loads_undoing ON loads (load_id) WHERE state = 'undoing';
CREATE TABLE queries (
    query_id SERIAL NOT NULL,
    name TEXT COLLATE "C" NOT NULL,
    folded TEXT COLLATE "C" NOT NULL,
    "user" TEXT COLLATE "C" NOT NULL,
    sql TEXT COLLATE "C" NOT NULL,
    plan_id INTEGER NOT NULL,
    parameters TEXT COLLATE "C" NOT NULL,
    columns TEXT COLLATE "C" NOT NULL,
    names TEXT COLLATE "C" DEFAULT '[]' NOT NULL,
    every_us BIGINT,
    from_mode TEXT COLLATE "C" NOT NULL,
    from_instant BIGINT,
    tau BIGINT,
    next_ordinal BIGINT NOT NULL,
    state TEXT COLLATE "C" NOT NULL,
    reason TEXT COLLATE "C",
    installed_at BIGINT NOT NULL,
    removed_at BIGINT,
    next_due BIGINT,
    next_run BIGINT,
    reads TEXT COLLATE "C" DEFAULT '[]' NOT NULL,
    stratum INTEGER DEFAULT '0' NOT NULL,
    last_first_at BIGINT,
    replaced_at BIGINT,
    definitions TEXT COLLATE "C" DEFAULT '[]' NOT NULL,
    PRIMARY KEY (query_id),
    FOREIGN KEY(plan_id) REFERENCES plans (plan_id)
);
CREATE INDEX queries_by_plan ON queries (plan_id, state);
CREATE INDEX queries_defined ON queries (query_id) WHERE definitions <> '[]';
CREATE UNIQUE INDEX queries_live_name ON queries (folded) WHERE state <> 'removed';
CREATE INDEX queries_poll ON queries (state, plan_id, next_run, tau, from_instant, next_due);
CREATE INDEX queries_reading ON queries (query_id) WHERE reads <> '[]';
CREATE TABLE tick_outputs (
    tick_id INTEGER NOT NULL,
    name TEXT COLLATE "C" NOT NULL,
    path TEXT COLLATE "C" NOT NULL,
    state TEXT COLLATE "C" NOT NULL,
    version BIGINT,
    rows BIGINT,
    PRIMARY KEY (tick_id, name),
    FOREIGN KEY(tick_id) REFERENCES ticks (tick_id)
);
CREATE TABLE tick_versions (
    tick_id INTEGER NOT NULL,
    path TEXT COLLATE "C" NOT NULL,
    version BIGINT NOT NULL,
    rows BIGINT NOT NULL,
    PRIMARY KEY (tick_id, path),
    FOREIGN KEY(tick_id) REFERENCES ticks (tick_id)
);
CREATE TABLE active_loads (
    load_id INTEGER NOT NULL,
    holder TEXT COLLATE "C" NOT NULL,
    expires_at BIGINT NOT NULL,
    floor BIGINT,
    PRIMARY KEY (load_id),
    FOREIGN KEY(load_id) REFERENCES loads (load_id)
);
CREATE TABLE load_files (
    load_id INTEGER NOT NULL,
    number INTEGER NOT NULL,
    source TEXT COLLATE "C" NOT NULL,
    digest TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (load_id, number),
    FOREIGN KEY(load_id) REFERENCES loads (load_id)
);
CREATE INDEX load_files_digest ON load_files (digest);
CREATE TABLE quarantine (
    quarantine_id SERIAL NOT NULL,
    load_id INTEGER NOT NULL,
    table_id INTEGER NOT NULL,
    source TEXT COLLATE "C" NOT NULL,
    position TEXT COLLATE "C" NOT NULL,
    reason TEXT COLLATE "C" NOT NULL,
    sha256 TEXT COLLATE "C" NOT NULL,
    size BIGINT NOT NULL,
    options TEXT COLLATE "C" NOT NULL,
    at BIGINT NOT NULL,
    state TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (quarantine_id),
    UNIQUE (table_id, source, position, sha256),
    FOREIGN KEY(load_id) REFERENCES loads (load_id),
    FOREIGN KEY(table_id) REFERENCES tables (table_id)
);
CREATE INDEX quarantine_state ON quarantine (state);
CREATE TABLE replaced (
    query_id INTEGER NOT NULL,
    number INTEGER NOT NULL,
    sql TEXT COLLATE "C" NOT NULL,
    from_instant BIGINT,
    since BIGINT NOT NULL,
    until BIGINT NOT NULL,
    tau BIGINT,
    rows BIGINT NOT NULL,
    PRIMARY KEY (query_id, number),
    FOREIGN KEY(query_id) REFERENCES queries (query_id)
);
CREATE TABLE reservations (
    reservation_id SERIAL NOT NULL,
    table_id INTEGER NOT NULL,
    load_id INTEGER NOT NULL,
    floor BIGINT NOT NULL,
    token BIGINT NOT NULL,
    state TEXT COLLATE "C" NOT NULL,
    delta_version BIGINT,
    rows BIGINT,
    first_ts BIGINT,
    last_ts BIGINT,
    PRIMARY KEY (reservation_id),
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
    sub_id SERIAL NOT NULL,
    query_id INTEGER NOT NULL,
    channel TEXT COLLATE "C" NOT NULL,
    delivered BIGINT NOT NULL,
    state TEXT COLLATE "C" NOT NULL,
    attempts INTEGER NOT NULL,
    next_attempt_at BIGINT,
    last_error TEXT COLLATE "C",
    muted INTEGER DEFAULT '0' NOT NULL,
    round INTEGER DEFAULT '0' NOT NULL,
    digest TEXT COLLATE "C",
    zone TEXT COLLATE "C",
    digest_at BIGINT,
    PRIMARY KEY (sub_id),
    UNIQUE (query_id, channel),
    FOREIGN KEY(query_id) REFERENCES queries (query_id)
);
CREATE INDEX subscriptions_by_channel ON subscriptions (channel);
CREATE TABLE tick_queries (
    tick_id INTEGER NOT NULL,
    query_id INTEGER NOT NULL,
    tau BIGINT,
    rows BIGINT,
    reason TEXT COLLATE "C",
    until BIGINT,
    PRIMARY KEY (tick_id, query_id),
    FOREIGN KEY(tick_id) REFERENCES ticks (tick_id),
    FOREIGN KEY(query_id) REFERENCES queries (query_id)
);
CREATE INDEX tick_queries_by_query ON tick_queries (query_id, tick_id);
CREATE TABLE outbox (
    entry_id SERIAL NOT NULL,
    sub_id INTEGER NOT NULL,
    first_ordinal BIGINT NOT NULL,
    last_ordinal BIGINT NOT NULL,
    state TEXT COLLATE "C" NOT NULL,
    position TEXT COLLATE "C",
    attempts INTEGER NOT NULL,
    last_error TEXT COLLATE "C",
    sent_at BIGINT,
    round INTEGER DEFAULT '0' NOT NULL,
    reply TEXT COLLATE "C",
    about TEXT COLLATE "C",
    PRIMARY KEY (entry_id),
    FOREIGN KEY(sub_id) REFERENCES subscriptions (sub_id)
);
CREATE INDEX outbox_by_subscription ON outbox (sub_id, entry_id);
CREATE UNIQUE INDEX outbox_unsent ON outbox (sub_id) WHERE state NOT IN ('sent', 'withdrawn');
CREATE TABLE sources (
    table_id INTEGER NOT NULL,
    kind TEXT COLLATE "C" NOT NULL,
    location TEXT COLLATE "C" NOT NULL,
    options TEXT COLLATE "C" NOT NULL,
    stamps TEXT COLLATE "C" NOT NULL,
    every_us BIGINT NOT NULL,
    added_at BIGINT NOT NULL,
    polled_at BIGINT,
    changed_at BIGINT,
    trouble TEXT COLLATE "C",
    open_rows BIGINT NOT NULL,
    seen TEXT COLLATE "C",
    next_seen TEXT COLLATE "C",
    reservation_id INTEGER,
    PRIMARY KEY (table_id),
    FOREIGN KEY(table_id) REFERENCES tables (table_id),
    FOREIGN KEY(reservation_id) REFERENCES reservations (reservation_id)
);
CREATE TABLE views (
    table_id INTEGER NOT NULL,
    sql TEXT COLLATE "C" NOT NULL,
    form TEXT COLLATE "C" NOT NULL,
    reads TEXT COLLATE "C" NOT NULL,
    mode TEXT COLLATE "C" NOT NULL,
    added_at BIGINT NOT NULL,
    tau BIGINT,
    trouble TEXT COLLATE "C",
    next_tau BIGINT,
    reservation_id INTEGER,
    depends_on_now INTEGER DEFAULT '0' NOT NULL,
    PRIMARY KEY (table_id),
    FOREIGN KEY(table_id) REFERENCES tables (table_id),
    FOREIGN KEY(reservation_id) REFERENCES reservations (reservation_id)
);

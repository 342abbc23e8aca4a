/* pg_inference--0.1.0.sql */

-- complain if script is sourced in psql, rather than via CREATE EXTENSION
\echo Use "CREATE EXTENSION pg_inference" to load this file. \quit

-- Whoever owns the schema may have put functions of his into it that are found before ours.
DO $$
BEGIN
	IF NOT (SELECT r.rolsuper FROM pg_catalog.pg_namespace AS n
			JOIN pg_catalog.pg_roles AS r ON r.oid OPERATOR(pg_catalog.=) n.nspowner
			WHERE n.nspname OPERATOR(pg_catalog.=) 'infer') THEN
		RAISE EXCEPTION 'schema "infer" belongs to a role that is no superuser'
			USING HINT = 'Look what is in it, then drop it or give it to a superuser with ALTER SCHEMA.';
	END IF;
END $$;

GRANT USAGE ON SCHEMA infer TO PUBLIC;

--
-- Servers: SQL/MED objects. The wrapper has no handler, so there are no foreign tables.
--

CREATE FUNCTION infer.fdw_validator(options text[], catalog oid)
RETURNS void
AS 'MODULE_PATHNAME', 'infer_fdw_validator'
LANGUAGE C STRICT;

CREATE FOREIGN DATA WRAPPER pg_inference
	NO HANDLER
	VALIDATOR infer.fdw_validator;

--
-- Models, and the servers each runs on: its placements, a set whose version only grows. Written
-- through the functions below only; the triggers count the version up and tell all sessions of
-- changes, also of those that a restore or a superuser makes by hand.
--

CREATE SEQUENCE infer.set_versions AS bigint;

CREATE TABLE infer.model_catalog (
	name text COLLATE "C" NOT NULL,
	task text COLLATE "C" NOT NULL,
	owner text COLLATE "C" NOT NULL,
	input_price double precision,
	output_price double precision,
	set_version bigint NOT NULL DEFAULT 0,
	min_version text COLLATE "C",
	ts_args text[] COLLATE "C",
	class_fns text[] COLLATE "C",
	fallbacks text[] COLLATE "C",
	routing jsonb,
	affinity text COLLATE "C" NOT NULL DEFAULT 'off',
	affinity_bytes integer NOT NULL DEFAULT 256,
	strategy text COLLATE "C" NOT NULL DEFAULT 'smart',
	CONSTRAINT model_catalog_pkey PRIMARY KEY (name),
	CONSTRAINT model_catalog_input_price CHECK (input_price >= 0 AND input_price < 'Infinity'),
	CONSTRAINT model_catalog_output_price CHECK (output_price >= 0 AND output_price < 'Infinity'),
	CONSTRAINT model_catalog_min_version CHECK (min_version ~ '^(0|[1-9][0-9]{0,4})[.][0-9]{2}$')
);

CREATE TABLE infer.placement_catalog (
	model text COLLATE "C" NOT NULL,
	server text COLLATE "C" NOT NULL,
	remote_model text COLLATE "C" NOT NULL,
	version text COLLATE "C",
	weight double precision NOT NULL DEFAULT 1,
	feeds text[] COLLATE "C",
	ts_range tstzrange,
	is_primary boolean NOT NULL DEFAULT false,
	service_class text COLLATE "C",
	set_version bigint NOT NULL DEFAULT 0,
	CONSTRAINT placement_catalog_pkey PRIMARY KEY (model, server, remote_model),
	CONSTRAINT placement_catalog_model FOREIGN KEY (model) REFERENCES infer.model_catalog (name)
		ON DELETE CASCADE,
	CONSTRAINT placement_catalog_version CHECK (version ~ '^(0|[1-9][0-9]{0,4})[.][0-9]{2}$'),
	CONSTRAINT placement_catalog_weight CHECK (weight >= 1e-6 AND weight <= 1e6)
);

-- Readable, as the views below are, so that an owner of a database who is no superuser can dump it.
REVOKE ALL ON TABLE infer.model_catalog, infer.placement_catalog FROM PUBLIC;
REVOKE ALL ON SEQUENCE infer.set_versions FROM PUBLIC;
GRANT SELECT ON TABLE infer.model_catalog TO PUBLIC;
GRANT SELECT ON TABLE infer.placement_catalog TO PUBLIC;
GRANT SELECT ON SEQUENCE infer.set_versions TO PUBLIC;

SELECT pg_catalog.pg_extension_config_dump('infer.model_catalog', '');
SELECT pg_catalog.pg_extension_config_dump('infer.placement_catalog', '');
SELECT pg_catalog.pg_extension_config_dump('infer.set_versions', '');

CREATE FUNCTION infer.note_model_change()
RETURNS trigger
AS 'MODULE_PATHNAME', 'infer_note_model_change'
LANGUAGE C;

CREATE FUNCTION infer.count_model_version()
RETURNS trigger
AS 'MODULE_PATHNAME', 'infer_count_model_version'
LANGUAGE C;

CREATE FUNCTION infer.count_placement_version()
RETURNS trigger
AS 'MODULE_PATHNAME', 'infer_count_placement_version'
LANGUAGE C;

REVOKE ALL ON FUNCTION infer.note_model_change() FROM PUBLIC;
REVOKE ALL ON FUNCTION infer.count_model_version() FROM PUBLIC;
REVOKE ALL ON FUNCTION infer.count_placement_version() FROM PUBLIC;

CREATE TRIGGER note_change
	AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON infer.model_catalog
	FOR EACH STATEMENT EXECUTE FUNCTION infer.note_model_change();
CREATE TRIGGER count_version
	BEFORE INSERT OR UPDATE ON infer.model_catalog
	FOR EACH ROW EXECUTE FUNCTION infer.count_model_version();
CREATE TRIGGER keep_version
	AFTER DELETE ON infer.model_catalog
	FOR EACH ROW EXECUTE FUNCTION infer.count_model_version();
CREATE TRIGGER keep_versions
	BEFORE TRUNCATE ON infer.model_catalog
	FOR EACH STATEMENT EXECUTE FUNCTION infer.count_model_version();
CREATE TRIGGER note_change
	AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON infer.placement_catalog
	FOR EACH STATEMENT EXECUTE FUNCTION infer.note_model_change();
CREATE TRIGGER count_version
	BEFORE INSERT OR UPDATE ON infer.placement_catalog
	FOR EACH ROW EXECUTE FUNCTION infer.count_placement_version();
CREATE TRIGGER count_dropped
	AFTER DELETE ON infer.placement_catalog
	FOR EACH ROW EXECUTE FUNCTION infer.count_placement_version();
CREATE TRIGGER count_versions
	AFTER TRUNCATE ON infer.placement_catalog
	FOR EACH STATEMENT EXECUTE FUNCTION infer.count_placement_version();

ALTER TABLE infer.model_catalog ENABLE ALWAYS TRIGGER note_change;
ALTER TABLE infer.model_catalog ENABLE ALWAYS TRIGGER count_version;
ALTER TABLE infer.model_catalog ENABLE ALWAYS TRIGGER keep_version;
ALTER TABLE infer.model_catalog ENABLE ALWAYS TRIGGER keep_versions;
ALTER TABLE infer.placement_catalog ENABLE ALWAYS TRIGGER note_change;
ALTER TABLE infer.placement_catalog ENABLE ALWAYS TRIGGER count_version;
ALTER TABLE infer.placement_catalog ENABLE ALWAYS TRIGGER count_dropped;
ALTER TABLE infer.placement_catalog ENABLE ALWAYS TRIGGER count_versions;

-- A row a model; its server and remote model are those of its only placement.
CREATE VIEW infer.models AS
	SELECT m.name, m.task, p.server, p.remote_model, m.owner, m.input_price, m.output_price,
		coalesce(p.placements, 0) AS placements, m.set_version, m.min_version, m.ts_args,
		m.class_fns, m.fallbacks, m.routing, m.affinity, m.affinity_bytes, m.strategy
	FROM infer.model_catalog AS m
	LEFT JOIN (
		SELECT model, count(*)::integer AS placements,
			CASE WHEN count(*) = 1 THEN min(server) END AS server,
			CASE WHEN count(*) = 1 THEN min(remote_model) END AS remote_model
		FROM infer.placement_catalog GROUP BY model
	) AS p ON p.model = m.name;

GRANT SELECT ON infer.models TO PUBLIC;

CREATE VIEW infer.placements AS
	SELECT p.model, p.server, p.remote_model, p.version, p.weight, p.feeds, p.ts_range,
		p.is_primary, p.service_class,
		CASE WHEN s.oid IS NULL THEN 'no such server'
			WHEN w.fdwname <> 'pg_inference' THEN 'not an inference server'
			WHEN NOT EXISTS (SELECT FROM pg_catalog.pg_options_to_table(s.srvoptions)
				WHERE option_name = 'url') THEN 'the server has no url'
		END AS problem
	FROM infer.placement_catalog AS p
	LEFT JOIN pg_catalog.pg_foreign_server AS s ON s.srvname = p.server
	LEFT JOIN pg_catalog.pg_foreign_data_wrapper AS w ON w.oid = s.srvfdw;

GRANT SELECT ON infer.placements TO PUBLIC;

CREATE FUNCTION infer.create_model(name text, task text, server text DEFAULT NULL,
	remote_model text DEFAULT NULL, input_price double precision DEFAULT NULL,
	output_price double precision DEFAULT NULL, min_version text DEFAULT NULL, ts_args text[] DEFAULT NULL, class_fns text[] DEFAULT NULL,
	fallbacks text[] DEFAULT NULL, routing jsonb DEFAULT NULL, affinity text DEFAULT NULL,
	affinity_bytes integer DEFAULT NULL, strategy text DEFAULT NULL)
RETURNS void
AS 'MODULE_PATHNAME', 'infer_create_model'
LANGUAGE C VOLATILE PARALLEL UNSAFE;

CREATE FUNCTION infer.alter_model(name text, server text DEFAULT NULL,
	remote_model text DEFAULT NULL, input_price double precision DEFAULT NULL,
	output_price double precision DEFAULT NULL, min_version text DEFAULT NULL, ts_args text[] DEFAULT NULL, class_fns text[] DEFAULT NULL,
	fallbacks text[] DEFAULT NULL, routing jsonb DEFAULT NULL, affinity text DEFAULT NULL,
	affinity_bytes integer DEFAULT NULL, strategy text DEFAULT NULL,
	reset text[] DEFAULT NULL)
RETURNS void
AS 'MODULE_PATHNAME', 'infer_alter_model'
LANGUAGE C VOLATILE PARALLEL UNSAFE;

CREATE FUNCTION infer.drop_model(name text)
RETURNS void
AS 'MODULE_PATHNAME', 'infer_drop_model'
LANGUAGE C VOLATILE PARALLEL UNSAFE;

CREATE FUNCTION infer.add_placement(model text, server text, remote_model text DEFAULT NULL,
	version text DEFAULT NULL, weight double precision DEFAULT NULL, feeds text[] DEFAULT NULL,
	ts_range tstzrange DEFAULT NULL, is_primary boolean DEFAULT NULL,
	service_class text DEFAULT NULL)
RETURNS void
AS 'MODULE_PATHNAME', 'infer_add_placement'
LANGUAGE C VOLATILE PARALLEL UNSAFE;

CREATE FUNCTION infer.alter_placement(model text, server text, remote_model text DEFAULT NULL,
	version text DEFAULT NULL, weight double precision DEFAULT NULL, feeds text[] DEFAULT NULL,
	ts_range tstzrange DEFAULT NULL, is_primary boolean DEFAULT NULL,
	service_class text DEFAULT NULL, reset text[] DEFAULT NULL)
RETURNS void
AS 'MODULE_PATHNAME', 'infer_alter_placement'
LANGUAGE C VOLATILE PARALLEL UNSAFE;

CREATE FUNCTION infer.drop_placement(model text, server text, remote_model text DEFAULT NULL)
RETURNS void
AS 'MODULE_PATHNAME', 'infer_drop_placement'
LANGUAGE C VOLATILE PARALLEL UNSAFE;

CREATE FUNCTION infer.replace_placements(model text, placements jsonb, version bigint)
RETURNS void
AS 'MODULE_PATHNAME', 'infer_replace_placements'
LANGUAGE C VOLATILE PARALLEL UNSAFE;

--
-- What the try_ functions return: exactly one of value and error is set.
--

CREATE TYPE infer.embed_outcome AS (
	value real[],
	error text,
	reason text,
	execution text,
	http_status integer,
	attempts integer,
	server text,
	usage jsonb,
	elapsed interval
);

CREATE TYPE infer.text_outcome AS (
	value text,
	error text,
	reason text,
	execution text,
	http_status integer,
	attempts integer,
	server text,
	usage jsonb,
	elapsed interval
);

CREATE TYPE infer.jsonb_outcome AS (
	value jsonb,
	error text,
	reason text,
	execution text,
	http_status integer,
	attempts integer,
	server text,
	usage jsonb,
	elapsed interval
);

--
-- Calls. Recognised by their C symbol, not by their name. COST is what they have in a server that
-- does not load the library yet; call_support knows better.
--

CREATE FUNCTION infer.call_support(internal)
RETURNS internal
AS 'MODULE_PATHNAME', 'infer_call_support'
LANGUAGE C STRICT;

CREATE FUNCTION infer.embed(model text, input text,
	parameters jsonb DEFAULT '{}', options jsonb DEFAULT '{}')
RETURNS real[]
AS 'MODULE_PATHNAME', 'infer_embed'
LANGUAGE C STABLE STRICT PARALLEL RESTRICTED COST 10000 SUPPORT infer.call_support;

CREATE FUNCTION infer.complete(model text, prompt text,
	parameters jsonb DEFAULT '{}', options jsonb DEFAULT '{}')
RETURNS text
AS 'MODULE_PATHNAME', 'infer_complete'
LANGUAGE C STABLE STRICT PARALLEL RESTRICTED COST 10000 SUPPORT infer.call_support;

CREATE FUNCTION infer.chat(model text, messages jsonb,
	parameters jsonb DEFAULT '{}', options jsonb DEFAULT '{}')
RETURNS text
AS 'MODULE_PATHNAME', 'infer_chat'
LANGUAGE C STABLE STRICT PARALLEL RESTRICTED COST 10000 SUPPORT infer.call_support;

CREATE FUNCTION infer.call(model text, body jsonb, options jsonb DEFAULT '{}')
RETURNS jsonb
AS 'MODULE_PATHNAME', 'infer_call_raw'
LANGUAGE C STABLE STRICT PARALLEL RESTRICTED COST 10000 SUPPORT infer.call_support;

CREATE FUNCTION infer.try_embed(model text, input text,
	parameters jsonb DEFAULT '{}', options jsonb DEFAULT '{}')
RETURNS infer.embed_outcome
AS 'MODULE_PATHNAME', 'infer_try_embed'
LANGUAGE C STABLE STRICT PARALLEL RESTRICTED COST 10000 SUPPORT infer.call_support;

CREATE FUNCTION infer.try_complete(model text, prompt text,
	parameters jsonb DEFAULT '{}', options jsonb DEFAULT '{}')
RETURNS infer.text_outcome
AS 'MODULE_PATHNAME', 'infer_try_complete'
LANGUAGE C STABLE STRICT PARALLEL RESTRICTED COST 10000 SUPPORT infer.call_support;

CREATE FUNCTION infer.try_chat(model text, messages jsonb,
	parameters jsonb DEFAULT '{}', options jsonb DEFAULT '{}')
RETURNS infer.text_outcome
AS 'MODULE_PATHNAME', 'infer_try_chat'
LANGUAGE C STABLE STRICT PARALLEL RESTRICTED COST 10000 SUPPORT infer.call_support;

CREATE FUNCTION infer.try_call(model text, body jsonb, options jsonb DEFAULT '{}')
RETURNS infer.jsonb_outcome
AS 'MODULE_PATHNAME', 'infer_try_call'
LANGUAGE C STABLE STRICT PARALLEL RESTRICTED COST 10000 SUPPORT infer.call_support;

--
-- Statistics. Admission keys name hosts of all databases, so they are for those who may read all
-- statistics.
--

CREATE FUNCTION infer._stat_admission(
	OUT key text,
	OUT max_limit integer,
	OUT current_limit double precision,
	OUT in_flight integer,
	OUT waiting integer,
	OUT waiting_vhigh integer,
	OUT waiting_high integer,
	OUT waiting_normal integer,
	OUT waiting_low integer,
	OUT waiting_vlow integer,
	OUT peak integer,
	OUT low_water double precision,
	OUT decreases bigint,
	OUT epoch bigint,
	OUT granted bigint,
	OUT succeeded bigint,
	OUT overloaded bigint,
	OUT failed bigint,
	OUT ignored bigint,
	OUT paced bigint,
	OUT over_limit bigint,
	OUT requests_left bigint,
	OUT tokens_left bigint,
	OUT retry_after_until timestamp with time zone,
	OUT failures_in_a_row integer,
	OUT failing_since timestamp with time zone,
	OUT cooldown_until timestamp with time zone,
	OUT last_failure text,
	OUT retries bigint,
	OUT retries_denied bigint,
	OUT abandoned_not_admitted bigint,
	OUT abandoned_maybe_executed bigint,
	OUT abandoned_executed bigint)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'infer_stat_admission'
LANGUAGE C VOLATILE STRICT PARALLEL SAFE COST 10 ROWS 20;

CREATE VIEW infer.stat_admission AS
	SELECT * FROM infer._stat_admission();

-- Also for all databases.
CREATE FUNCTION infer._stat_models(
	OUT database name,
	OUT server name,
	OUT remote_model text,
	OUT task text,
	OUT requests bigint,
	OUT rows bigint,
	OUT latency interval,
	OUT rows_per_request double precision,
	OUT row_latency interval,
	OUT input_tokens_per_row double precision,
	OUT output_tokens_per_row double precision,
	OUT last_answer timestamp with time zone)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'infer_stat_models'
LANGUAGE C VOLATILE STRICT PARALLEL SAFE COST 10 ROWS 20;

CREATE FUNCTION infer.call_cost(model text, task text)
RETURNS double precision
AS 'MODULE_PATHNAME', 'infer_call_cost'
LANGUAGE C VOLATILE STRICT PARALLEL SAFE;

-- A model of this database that several names stand for has a row for each.
CREATE VIEW infer.stat_models AS
	SELECT s.database, p.model, s.server, s.remote_model, s.task, s.requests, s.rows,
		s.latency, s.rows_per_request, s.row_latency, s.input_tokens_per_row,
		s.output_tokens_per_row, s.last_answer,
		CASE WHEN s.database = current_database()
			THEN infer.call_cost(coalesce(p.model, s.server || '/' || s.remote_model), s.task)
		END AS cost
	FROM infer._stat_models() AS s
	LEFT JOIN infer.placement_catalog AS p
		ON s.database = current_database() AND p.server = s.server
		AND p.remote_model = s.remote_model;

-- Of all databases; of other roles only for those who may see their statistics.
CREATE FUNCTION infer._stat_progress(
	OUT pid integer,
	OUT datid oid,
	OUT usesysid oid,
	OUT since timestamp with time zone,
	OUT rows bigint,
	OUT calls bigint,
	OUT requests bigint,
	OUT retries bigint,
	OUT errors bigint,
	OUT tokens bigint,
	OUT in_flight integer,
	OUT waiting_for text)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'infer_stat_progress'
LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED COST 10 ROWS 20;

CREATE VIEW infer.stat_progress AS
	SELECT p.pid, d.datname, r.rolname AS usename, p.since, p.rows, p.calls, p.requests, p.retries,
		p.errors, p.tokens, p.in_flight, p.waiting_for,
		p.rows / nullif(extract(epoch FROM clock_timestamp() - p.since), 0)::double precision
			AS rows_per_second
	FROM infer._stat_progress() AS p
	LEFT JOIN pg_catalog.pg_database AS d ON d.oid = p.datid
	LEFT JOIN pg_catalog.pg_roles AS r ON r.oid = p.usesysid;

GRANT SELECT ON infer.stat_progress TO PUBLIC;

-- Who may is checked by the functions: the owner of the server, or pg_signal_backend.
CREATE FUNCTION infer.drain(
	server name DEFAULT NULL,
	grace interval DEFAULT '30 seconds',
	OUT server_name name,
	OUT drained boolean,
	OUT already_drained boolean,
	OUT finished bigint,
	OUT abandoned bigint,
	OUT ended_not_admitted bigint,
	OUT ended_maybe_executed bigint,
	OUT ended_executed bigint,
	OUT refused bigint,
	OUT left_in_flight bigint)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'infer_drain'
LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000 ROWS 1;

CREATE FUNCTION infer.undrain(server name DEFAULT NULL)
RETURNS boolean
AS 'MODULE_PATHNAME', 'infer_undrain'
LANGUAGE C VOLATILE PARALLEL UNSAFE;

-- Of all databases; of other roles only for those who may see their statistics.
CREATE FUNCTION infer._stat_queue(
	OUT pid integer,
	OUT datid oid,
	OUT usesysid oid,
	OUT key text,
	OUT node text,
	OUT "position" integer,
	OUT priority text,
	OUT duration text,
	OUT wanted integer,
	OUT since timestamp with time zone,
	OUT deadline timestamp with time zone)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'infer_stat_queue'
LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED COST 10 ROWS 20;

CREATE VIEW infer.stat_queue AS
	SELECT q.pid, d.datname, r.rolname AS usename, q.key, q.node, q."position", q.priority,
		q.duration, q.wanted, q.since, q.deadline
	FROM infer._stat_queue() AS q
	LEFT JOIN pg_catalog.pg_database AS d ON d.oid = q.datid
	LEFT JOIN pg_catalog.pg_roles AS r ON r.oid = q.usesysid;

GRANT SELECT ON infer.stat_queue TO PUBLIC;

CREATE FUNCTION infer.retained_bytes()
RETURNS bigint
AS 'MODULE_PATHNAME', 'infer_retained_bytes'
LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;

CREATE FUNCTION infer.statement_errors(
	OUT ordinal bigint,
	OUT calls bigint,
	OUT model text,
	OUT server text,
	OUT task text,
	OUT reason text,
	OUT execution text,
	OUT sqlstate text,
	OUT http_status integer,
	OUT attempts integer,
	OUT error text,
	OUT input_md5 text,
	OUT at timestamp with time zone)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'infer_statement_errors'
LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED COST 10 ROWS 20;

-- Of all databases; of other roles only for those who may see their statistics.
CREATE FUNCTION infer._stat_usage(
	OUT day date,
	OUT datid oid,
	OUT usesysid oid,
	OUT server name,
	OUT remote_model text,
	OUT task text,
	OUT requests bigint,
	OUT attempts bigint,
	OUT failed bigint,
	OUT calls bigint,
	OUT memo_hits bigint,
	OUT input_tokens bigint,
	OUT output_tokens bigint,
	OUT estimated bigint,
	OUT cost double precision,
	OUT unpriced bigint)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'infer_stat_usage'
LANGUAGE C VOLATILE STRICT PARALLEL SAFE COST 10 ROWS 100;

CREATE VIEW infer.stat_usage AS
	SELECT u.day, d.datname, r.rolname AS usename, u.server, u.remote_model, u.task, u.requests,
		u.attempts, u.failed, u.calls, u.memo_hits, u.input_tokens, u.output_tokens, u.estimated,
		u.cost, u.unpriced
	FROM infer._stat_usage() AS u
	LEFT JOIN pg_catalog.pg_database AS d ON d.oid = u.datid
	LEFT JOIN pg_catalog.pg_roles AS r ON r.oid = u.usesysid;

GRANT SELECT ON infer.stat_usage TO PUBLIC;

-- What the route table knows of servers. Of other databases only for those who may read all
-- statistics, of this one for those who may use the server, too.
CREATE FUNCTION infer._stat_servers(
	OUT database name,
	OUT server name,
	OUT node text,
	OUT service_class text,
	OUT state text,
	OUT since timestamp with time zone,
	OUT why text,
	OUT last_probe timestamp with time zone,
	OUT next_probe timestamp with time zone,
	OUT cooldown_until timestamp with time zone,
	OUT excluded_until timestamp with time zone,
	OUT draining_until timestamp with time zone,
	OUT current_limit double precision,
	OUT in_flight integer,
	OUT waiting integer,
	OUT outstanding double precision,
	OUT penalty double precision,
	OUT duration_weight integer,
	OUT latency_p50 interval,
	OUT latency_p99 interval,
	OUT answers bigint,
	OUT failures bigint,
	OUT errors jsonb,
	OUT not_admitted bigint,
	OUT maybe_executed bigint,
	OUT executed bigint,
	OUT last_answer timestamp with time zone,
	OUT last_failure text,
	OUT hedges_sent bigint,
	OUT hedges_won bigint,
	OUT late bigint,
	OUT incarnation text,
	OUT incarnations bigint,
	OUT address text,
	OUT admission_key text,
	OUT generation bigint,
	OUT node_load double precision,
	OUT node_health double precision)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'infer_stat_servers'
LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED COST 10 ROWS 20;

CREATE VIEW infer.stat_servers AS
	SELECT database, server, node, service_class, state, since, why, last_probe, next_probe,
		cooldown_until, excluded_until, draining_until, current_limit, in_flight, waiting,
		outstanding, penalty, latency_p50, latency_p99, answers, failures, errors, not_admitted,
		maybe_executed, executed, last_answer, last_failure, hedges_sent, hedges_won, late,
		incarnation, incarnations, address, admission_key, generation
	FROM infer._stat_servers();

CREATE VIEW infer.stat_nodes AS
	SELECT database, node, count(*) AS servers, count(*) FILTER (WHERE state = 'up') AS healthy,
		sum(in_flight) AS in_flight, sum(duration_weight) AS duration_weight,
		max(node_load) AS load_factor, max(node_health) AS health_factor
	FROM infer._stat_servers()
	GROUP BY database, node;

CREATE FUNCTION infer.explain_route(
	model text,
	header jsonb DEFAULT '{}',
	parameters jsonb DEFAULT '{}',
	OUT phase integer,
	OUT server name,
	OUT node text,
	OUT verdict text,
	OUT reason text,
	OUT score double precision,
	OUT remote_model text,
	OUT service_class text,
	OUT version text,
	OUT tier integer)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'infer_explain'
LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED COST 100 ROWS 10;

CREATE FUNCTION infer.ref(model text, server name DEFAULT NULL)
RETURNS text
AS 'MODULE_PATHNAME', 'infer_ref'
LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 100;

CREATE FUNCTION infer.ref_to_bytes(ref text)
RETURNS bytea
AS 'MODULE_PATHNAME', 'infer_ref_to_bytes'
LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

CREATE FUNCTION infer.ref_from_bytes(bytes bytea)
RETURNS text
AS 'MODULE_PATHNAME', 'infer_ref_from_bytes'
LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

CREATE FUNCTION infer.latency_histogram(
	server name,
	OUT from_latency interval,
	OUT to_latency interval,
	OUT answers bigint,
	OUT recent bigint,
	OUT bar text)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'infer_latency_histogram'
LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED COST 10 ROWS 20;

GRANT SELECT ON infer.stat_servers TO PUBLIC;
GRANT SELECT ON infer.stat_nodes TO PUBLIC;

CREATE FUNCTION infer.stat_reset()
RETURNS void
AS 'MODULE_PATHNAME', 'infer_stat_reset'
LANGUAGE C VOLATILE STRICT PARALLEL SAFE;

CREATE FUNCTION infer.apply_limits(server text)
RETURNS void
AS 'MODULE_PATHNAME', 'infer_apply_limits'
LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;

CREATE FUNCTION infer.reset_usage()
RETURNS void
AS 'MODULE_PATHNAME', 'infer_reset_usage'
LANGUAGE C VOLATILE STRICT PARALLEL SAFE;

REVOKE ALL ON FUNCTION infer.call_support(internal) FROM PUBLIC;
REVOKE ALL ON FUNCTION infer.reset_usage() FROM PUBLIC;
REVOKE ALL ON FUNCTION infer._stat_admission() FROM PUBLIC;
REVOKE ALL ON FUNCTION infer._stat_models() FROM PUBLIC;
REVOKE ALL ON TABLE infer.stat_admission FROM PUBLIC;
REVOKE ALL ON TABLE infer.stat_models FROM PUBLIC;
REVOKE ALL ON FUNCTION infer.stat_reset() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION infer._stat_admission() TO pg_read_all_stats;
GRANT EXECUTE ON FUNCTION infer._stat_models() TO pg_read_all_stats;
GRANT SELECT ON TABLE infer.stat_admission TO pg_read_all_stats;
GRANT SELECT ON TABLE infer.stat_models TO pg_read_all_stats;

CREATE FUNCTION infer.version()
RETURNS text
AS 'MODULE_PATHNAME', 'infer_version'
LANGUAGE C STABLE STRICT PARALLEL SAFE;

--
-- Comments
--

COMMENT ON FOREIGN DATA WRAPPER pg_inference IS
	'Inference servers: CREATE SERVER ... FOREIGN DATA WRAPPER pg_inference OPTIONS (url ...)';

COMMENT ON FUNCTION infer.fdw_validator(text[], oid) IS
	'Checks the options of servers and user mappings; raises for unknown options and bad values, and for key files or variables named by a role that may not read server files';

COMMENT ON SEQUENCE infer.set_versions IS
	'Versions of sets of placements, of all models';
COMMENT ON TABLE infer.model_catalog IS
	'Models; written through infer.create_model, alter_model and drop_model only; read infer.models instead';
COMMENT ON TABLE infer.placement_catalog IS
	'Placements of models; written through infer.add_placement, alter_placement, drop_placement and replace_placements only; read infer.placements instead';
COMMENT ON FUNCTION infer.note_model_change() IS
	'Trigger of infer.model_catalog and infer.placement_catalog: has all sessions read them anew';
COMMENT ON FUNCTION infer.count_model_version() IS
	'Trigger of infer.model_catalog: a changed model, or one that is made again, has a later set_version';
COMMENT ON FUNCTION infer.count_placement_version() IS
	'Trigger of infer.placement_catalog: the model of a changed placement has a later set_version';
COMMENT ON VIEW infer.models IS
	'Models: name, task, server that serves it, what the server calls it, owning role, prices, number of placements and version of their set, and how a request finds its server';
COMMENT ON COLUMN infer.models.name IS 'what calls name it';
COMMENT ON COLUMN infer.models.task IS 'embed, complete, chat or call';
COMMENT ON COLUMN infer.models.server IS 'the foreign server that serves it; NULL: none or several do, see infer.placements';
COMMENT ON COLUMN infer.models.remote_model IS 'what that server calls it';
COMMENT ON COLUMN infer.models.owner IS 'the role that may alter and drop it';
COMMENT ON COLUMN infer.models.input_price IS 'what a million input tokens cost; NULL: not known';
COMMENT ON COLUMN infer.models.output_price IS 'what a million output tokens cost; NULL: not known';
COMMENT ON COLUMN infer.models.placements IS 'how many placements it has';
COMMENT ON COLUMN infer.models.set_version IS 'version of its set of placements: larger after each change of the model or one of them';
COMMENT ON COLUMN infer.models.min_version IS 'no placement with a lower version is used, M.NN; NULL: any is';
COMMENT ON COLUMN infer.models.ts_args IS 'which parameters of a call are times: none, one, or two (from, to)';
COMMENT ON COLUMN infer.models.class_fns IS 'signatures of functions that may change the header of a request';
COMMENT ON COLUMN infer.models.fallbacks IS 'models that are asked when none of its own servers can be';
COMMENT ON COLUMN infer.models.routing IS 'routing keys of its requests, below those of the setting pg_inference.routing and of the call';
COMMENT ON COLUMN infer.models.affinity IS 'prefix: requests that begin alike prefer the same server; off';
COMMENT ON COLUMN infer.models.affinity_bytes IS 'how many bytes must be alike for that';
COMMENT ON COLUMN infer.models.strategy IS 'among equal nodes: smart (that of the last success), rr (the next in turn)';
COMMENT ON VIEW infer.placements IS
	'Placements: which servers each model runs on, and as what';
COMMENT ON COLUMN infer.placements.model IS 'name of the model';
COMMENT ON COLUMN infer.placements.server IS 'a foreign server that it runs on';
COMMENT ON COLUMN infer.placements.remote_model IS 'what that server calls it';
COMMENT ON COLUMN infer.placements.version IS 'version of the model there, M.NN; NULL: not said';
COMMENT ON COLUMN infer.placements.weight IS 'its share of the work, relative to the others';
COMMENT ON COLUMN infer.placements.feeds IS 'names of what it has data of; NULL: not said';
COMMENT ON COLUMN infer.placements.ts_range IS 'times that it has data of; NULL: all';
COMMENT ON COLUMN infer.placements.is_primary IS 'calls that may change something prefer it';
COMMENT ON COLUMN infer.placements.service_class IS 'role it plays; NULL: that of the server';
COMMENT ON COLUMN infer.placements.problem IS 'why it gets no calls: no such server, ...; NULL: nothing that the catalogs know';

COMMENT ON FUNCTION infer.create_model(text, text, text, text, double precision, double precision, text, text[], text[], text[], jsonb, text, integer, text) IS
	'Creates a model: name (no slash, up to 255 bytes), task (embed, complete, chat, call), server (NULL: none yet, see infer.add_placement), what the server calls it (default: the name), and what a million input and output tokens cost, in any one currency (default: not known). How a request finds its server: min_version, ts_args, class_fns, fallbacks, routing, affinity, affinity_bytes, strategy. Needs USAGE on the server, its ownership if there are prices, superuser if there are class_fns. Raises if the model exists';
COMMENT ON FUNCTION infer.alter_model(text, text, text, double precision, double precision, text, text[], text[], text[], jsonb, text, integer, text, text[]) IS
	'Moves a model with one placement to another server or remote model, or changes what create_model says of it; NULL leaves each as it is, those named in reset get their defaults. Needs ownership of the model, and USAGE on the new server; of one that has prices, ownership of its servers, too; for class_fns, superuser';
COMMENT ON FUNCTION infer.drop_model(text) IS
	'Drops a model and its placements. Needs ownership of it. Raises if there is no such model';
COMMENT ON FUNCTION infer.add_placement(text, text, text, text, double precision, text[], tstzrange, boolean, text) IS
	'Has a model run on one more server: model, server, what the server calls it (default: what the others do), version (M.NN), weight (default 1), feeds, ts_range, is_primary (default false), service_class. Needs ownership of the model and USAGE on the server; if the model has prices, ownership of its servers, too';
COMMENT ON FUNCTION infer.alter_placement(text, text, text, text, double precision, text[], tstzrange, boolean, text, text[]) IS
	'Changes what is said of a placement; remote_model may be left out if the model has one on that server. NULL leaves each as it is, those named in reset get their defaults. Needs ownership of the model';
COMMENT ON FUNCTION infer.drop_placement(text, text, text) IS
	'Drops a placement, also the last; remote_model may be left out if the model has one on that server. Needs ownership of the model';
COMMENT ON FUNCTION infer.replace_placements(text, jsonb, bigint) IS
	'Replaces all placements of a model by those of a JSON array of objects with the arguments of infer.add_placement as keys. Raises unless the version is beyond the set_version of the model, which it becomes. Needs what add_placement needs';

COMMENT ON TYPE infer.embed_outcome IS
	'Outcome of try_embed: exactly one of value and error is set';
COMMENT ON TYPE infer.text_outcome IS
	'Outcome of try_complete and try_chat: exactly one of value and error is set';
COMMENT ON TYPE infer.jsonb_outcome IS
	'Outcome of try_call: exactly one of value and error is set';

COMMENT ON FUNCTION infer.embed(text, text, jsonb, jsonb) IS
	'Embedding of a text: model (or server/remote_model), input; parameters go to the model, options say how to call. NULL in, NULL out, without a call. Raises SQLSTATE RN... (not admitted), RM... (may have run), RX... (ran, no usable answer), RC... (configuration), 42501 without USAGE on the server';
COMMENT ON FUNCTION infer.complete(text, text, jsonb, jsonb) IS
	'Completion of a prompt: model (or server/remote_model), prompt; parameters go to the model, options say how to call. NULL in, NULL out, without a call. Raises as infer.embed does';
COMMENT ON FUNCTION infer.chat(text, jsonb, jsonb, jsonb) IS
	'Answer to a conversation: model (or server/remote_model), a JSON array of messages with role and content; parameters go to the model, options say how to call. NULL in, NULL out, without a call. Raises as infer.embed does';
COMMENT ON FUNCTION infer.call(text, jsonb, jsonb) IS
	'Raw answer to a raw request body: model (or server/remote_model, or server/), body; option path is appended to the url of the server. NULL in, NULL out, without a call. Raises as infer.embed does';
COMMENT ON FUNCTION infer.try_embed(text, text, jsonb, jsonb) IS
	'As infer.embed, but a failed call is an outcome with error, reason and execution instead of an exception; configuration errors are raised';
COMMENT ON FUNCTION infer.try_complete(text, text, jsonb, jsonb) IS
	'As infer.complete, but a failed call is an outcome with error, reason and execution instead of an exception; configuration errors are raised';
COMMENT ON FUNCTION infer.try_chat(text, jsonb, jsonb, jsonb) IS
	'As infer.chat, but a failed call is an outcome with error, reason and execution instead of an exception; configuration errors are raised';
COMMENT ON FUNCTION infer.try_call(text, jsonb, jsonb) IS
	'As infer.call, but a failed call is an outcome with error, reason and execution instead of an exception; configuration errors are raised';

COMMENT ON FUNCTION infer._stat_admission() IS
	'Source of the view infer.stat_admission';
COMMENT ON VIEW infer.stat_admission IS
	'Permits for requests, one row per admission key of the whole cluster, since start or stat_reset(). Raises unless the library was preloaded';
COMMENT ON COLUMN infer.stat_admission.key IS 'admission key: the option of the server, or scheme://host:port';
COMMENT ON COLUMN infer.stat_admission.max_limit IS 'the limit never grows beyond this: max_concurrency of the server, limiter_max_limit, or 1024';
COMMENT ON COLUMN infer.stat_admission.current_limit IS 'requests that may be in flight at once now; below 1 single requests are spaced in time';
COMMENT ON COLUMN infer.stat_admission.in_flight IS 'requests in flight now';
COMMENT ON COLUMN infer.stat_admission.waiting IS 'processes that wait for a permit now';
COMMENT ON COLUMN infer.stat_admission.waiting_vhigh IS 'those of them with priority VHIGH';
COMMENT ON COLUMN infer.stat_admission.waiting_high IS 'those of them with priority HIGH';
COMMENT ON COLUMN infer.stat_admission.waiting_normal IS 'those of them with priority NORMAL';
COMMENT ON COLUMN infer.stat_admission.waiting_low IS 'those of them with priority LOW';
COMMENT ON COLUMN infer.stat_admission.waiting_vlow IS 'those of them with priority VLOW';
COMMENT ON COLUMN infer.stat_admission.peak IS 'most requests in flight at once';
COMMENT ON COLUMN infer.stat_admission.low_water IS 'lowest current_limit';
COMMENT ON COLUMN infer.stat_admission.decreases IS 'times that overload lowered the limit';
COMMENT ON COLUMN infer.stat_admission.epoch IS 'the same since the key was used first: refusals of requests sent in an earlier epoch change nothing more';
COMMENT ON COLUMN infer.stat_admission.granted IS 'permits given out';
COMMENT ON COLUMN infer.stat_admission.succeeded IS 'requests that were answered';
COMMENT ON COLUMN infer.stat_admission.overloaded IS 'requests refused for overload (429, 503), or timed out';
COMMENT ON COLUMN infer.stat_admission.failed IS 'requests that failed otherwise';
COMMENT ON COLUMN infer.stat_admission.ignored IS 'requests cancelled or never sent';
COMMENT ON COLUMN infer.stat_admission.paced IS 'times that a permit was refused though the limit was not reached: the minute is used up, a pause is kept, or growth is spread over time';
COMMENT ON COLUMN infer.stat_admission.over_limit IS 'permits given in a dry run (pg_inference.limiter_dry_run) that the limit would have refused';
COMMENT ON COLUMN infer.stat_admission.requests_left IS 'of this minute, by rpm and by what the server said; NULL: no limit is known';
COMMENT ON COLUMN infer.stat_admission.tokens_left IS 'of this minute, by tpm and by what the server said; NULL: no limit is known';
COMMENT ON COLUMN infer.stat_admission.failures_in_a_row IS 'failures that say the server is broken (no connection, no answer, half of one, 500, 502, 504), since an answer that does not';
COMMENT ON COLUMN infer.stat_admission.failing_since IS 'the first of them; NULL: it is not failing, as far as is known';
COMMENT ON COLUMN infer.stat_admission.cooldown_until IS 'the server is left alone until then, when one request is sent to see how it is; NULL: it is not, or that request is due';
COMMENT ON COLUMN infer.stat_admission.last_failure IS 'why the last of them failed, also when the server has been well since; NULL: none has';
COMMENT ON COLUMN infer.stat_admission.retry_after_until IS 'until then nothing is sent, for the server asked for a pause; NULL: now';
COMMENT ON COLUMN infer.stat_admission.retries IS 'attempts that followed a failed one';
COMMENT ON COLUMN infer.stat_admission.retries_denied IS 'attempts that retry_budget did not allow';
COMMENT ON COLUMN infer.stat_admission.abandoned_not_admitted IS 'requests given up before their answer came (a cancel, a LIMIT, an error elsewhere) that provably did not run';
COMMENT ON COLUMN infer.stat_admission.abandoned_maybe_executed IS 'those of them that may have run';
COMMENT ON COLUMN infer.stat_admission.abandoned_executed IS 'those of them that had run';
COMMENT ON FUNCTION infer._stat_models() IS
	'Source of the view infer.stat_models';
COMMENT ON VIEW infer.stat_models IS
	'What the answers of each model took, in all databases, since start or stat_reset(); planning orders calls by it. Raises unless the library was preloaded';
COMMENT ON COLUMN infer.stat_models.database IS 'database of the server';
COMMENT ON COLUMN infer.stat_models.model IS 'name of the model in this database; NULL if it has none';
COMMENT ON COLUMN infer.stat_models.server IS 'foreign server that answered';
COMMENT ON COLUMN infer.stat_models.remote_model IS 'what that server calls the model; hash: and a number for very long names';
COMMENT ON COLUMN infer.stat_models.task IS 'what it was asked for: embed, complete, chat or call';
COMMENT ON COLUMN infer.stat_models.requests IS 'requests that were answered';
COMMENT ON COLUMN infer.stat_models.rows IS 'rows in these requests';
COMMENT ON COLUMN infer.stat_models.latency IS 'mean time of a request of late, from sending to the last byte';
COMMENT ON COLUMN infer.stat_models.rows_per_request IS 'mean of late';
COMMENT ON COLUMN infer.stat_models.row_latency IS 'latency by rows_per_request';
COMMENT ON COLUMN infer.stat_models.input_tokens_per_row IS 'mean of late, as answers report it; NULL if none did';
COMMENT ON COLUMN infer.stat_models.output_tokens_per_row IS 'mean of late, as answers report it; NULL if none did';
COMMENT ON COLUMN infer.stat_models.last_answer IS 'when the last answer came';
COMMENT ON COLUMN infer.stat_models.cost IS 'COST of a call in plans that are made now; NULL for other databases';
COMMENT ON FUNCTION infer._stat_progress() IS
	'Source of the view infer.stat_progress';
COMMENT ON VIEW infer.stat_progress IS
	'Scans that call models, now: those of roles whose statistics you may see, of all databases. At most four of a session are shown. Raises unless the library was preloaded';
COMMENT ON COLUMN infer.stat_progress.pid IS 'process, as in pg_stat_activity';
COMMENT ON COLUMN infer.stat_progress.datname IS 'its database';
COMMENT ON COLUMN infer.stat_progress.usename IS 'role that calls';
COMMENT ON COLUMN infer.stat_progress.since IS 'when its first call was made';
COMMENT ON COLUMN infer.stat_progress.rows IS 'rows returned';
COMMENT ON COLUMN infer.stat_progress.calls IS 'calls made for rows, those answered without a request included';
COMMENT ON COLUMN infer.stat_progress.requests IS 'requests sent';
COMMENT ON COLUMN infer.stat_progress.retries IS 'requests repeated';
COMMENT ON COLUMN infer.stat_progress.errors IS 'calls that failed';
COMMENT ON COLUMN infer.stat_progress.tokens IS 'tokens that answers reported';
COMMENT ON COLUMN infer.stat_progress.in_flight IS 'requests in flight';
COMMENT ON COLUMN infer.stat_progress.waiting_for IS 'answers, permit (of its admission key), retry (the time of one); NULL: it works, or its client reads no rows';
COMMENT ON COLUMN infer.stat_progress.rows_per_second IS 'rows by the time since then';
COMMENT ON FUNCTION infer.drain(name, interval) IS
	'Takes a server of this database (NULL: all) out of service: nothing new is sent there, what is in flight has the grace to end and is cut off then. Waits for that, and tells what became of its requests since it began. A second call has the grace of the first. Until infer.undrain() or a restart. For its owner and pg_signal_backend';
COMMENT ON FUNCTION infer.undrain(name) IS
	'Puts a server of this database (NULL: all) back into service; false: it was not drained. For its owner and pg_signal_backend';
COMMENT ON FUNCTION infer._stat_queue() IS
	'Source of the view infer.stat_queue';
COMMENT ON VIEW infer.stat_queue IS
	'Sessions whose requests wait for their turn, now: those of roles whose statistics you may see, of all databases. Raises unless the library was preloaded';
COMMENT ON COLUMN infer.stat_queue.pid IS 'process, as in pg_stat_activity';
COMMENT ON COLUMN infer.stat_queue.datname IS 'its database';
COMMENT ON COLUMN infer.stat_queue.usename IS 'role that it logged in as';
COMMENT ON COLUMN infer.stat_queue.key IS 'admission key of which it wants a permit; NULL: that is not what it waits for';
COMMENT ON COLUMN infer.stat_queue.node IS 'node that has too much LONG and EPIC work in flight to take its own; NULL: that is not what it waits for';
COMMENT ON COLUMN infer.stat_queue."position" IS 'in that line, by priority and arrival; of equals, who has less in flight under a key goes first';
COMMENT ON COLUMN infer.stat_queue.priority IS 'of its next request';
COMMENT ON COLUMN infer.stat_queue.duration IS 'that its next request is expected to have';
COMMENT ON COLUMN infer.stat_queue.wanted IS 'requests that could leave';
COMMENT ON COLUMN infer.stat_queue.since IS 'when it joined the line, or last got a part of what it wanted';
COMMENT ON COLUMN infer.stat_queue.deadline IS 'when its next request is given up; NULL: never';
COMMENT ON FUNCTION infer._stat_usage() IS
	'Source of the view infer.stat_usage';
COMMENT ON VIEW infer.stat_usage IS
	'What calls have taken, per day, database, role and model: of roles whose statistics you may see, of all databases. Kept over restarts. Raises unless the library was preloaded';
COMMENT ON COLUMN infer.stat_usage.day IS 'day in UTC on which it was sent; NULL: older days, folded for lack of room';
COMMENT ON COLUMN infer.stat_usage.datname IS 'database of the call';
COMMENT ON COLUMN infer.stat_usage.usename IS 'role that pays: the session user, whatever SET ROLE and SECURITY DEFINER say; NULL: dropped since, or nobody had room';
COMMENT ON COLUMN infer.stat_usage.server IS 'foreign server that was asked; it and the model are NULL in rows that stand for several, for lack of room';
COMMENT ON COLUMN infer.stat_usage.remote_model IS 'what that server calls the model; hash: and a number for very long names';
COMMENT ON COLUMN infer.stat_usage.task IS 'what it was asked for: embed, complete, chat or call';
COMMENT ON COLUMN infer.stat_usage.requests IS 'different requests sent';
COMMENT ON COLUMN infer.stat_usage.attempts IS 'transmissions: requests, and those of them that were repeated';
COMMENT ON COLUMN infer.stat_usage.failed IS 'attempts that were refused, failed, or were given up';
COMMENT ON COLUMN infer.stat_usage.calls IS 'inputs that were, or may have been, executed; each once, however often attempted';
COMMENT ON COLUMN infer.stat_usage.memo_hits IS 'calls answered without a request, for their statement had asked the same before';
COMMENT ON COLUMN infer.stat_usage.input_tokens IS 'as answers report, or as estimated';
COMMENT ON COLUMN infer.stat_usage.output_tokens IS 'as answers report, or as estimated';
COMMENT ON COLUMN infer.stat_usage.estimated IS 'attempts whose tokens are estimates: they may have been executed, and no answer said what they took';
COMMENT ON COLUMN infer.stat_usage.cost IS 'by the prices that the model had then; NULL: it had none';
COMMENT ON COLUMN infer.stat_usage.unpriced IS 'attempts that are not in cost, for the model had no prices';
COMMENT ON FUNCTION infer.call_cost(text, text) IS
	'COST of a call to a model for a task in plans that are made now';
COMMENT ON FUNCTION infer.call_support(internal) IS
	'Planner support of the functions that call models: their cost';
COMMENT ON FUNCTION infer.retained_bytes() IS
	'Bytes of requests that this session keeps because they may have to be sent again: calls with a delivery other than single';
COMMENT ON FUNCTION infer.reset_usage() IS
	'Forgets what calls have taken, of all roles and days: budgets of today begin anew, also after a start that could not read what was spent. For superusers, and roles granted EXECUTE';
COMMENT ON FUNCTION infer._stat_servers() IS
	'Source of the views infer.stat_servers and stat_nodes';
COMMENT ON VIEW infer.stat_servers IS
	'What is known of each server in use, since start or stat_reset(): those that one may use in this database; of all databases for pg_read_all_stats. Raises unless the library was preloaded';
COMMENT ON COLUMN infer.stat_servers.database IS 'database of the server';
COMMENT ON COLUMN infer.stat_servers.server IS 'foreign server, as it was called when it was used last';
COMMENT ON COLUMN infer.stat_servers.node IS 'node that hosts it: the option, or its own name';
COMMENT ON COLUMN infer.stat_servers.service_class IS 'the role that it plays: the option; NULL: none';
COMMENT ON COLUMN infer.stat_servers.state IS 'up; behind: it answers, but is not ready; failed: it does not answer, or failed so often that it is left alone; draining: it takes nothing new';
COMMENT ON COLUMN infer.stat_servers.since IS 'when that began, as far as is known';
COMMENT ON COLUMN infer.stat_servers.why IS 'what it failed with, or waits for; NULL: it is up';
COMMENT ON COLUMN infer.stat_servers.last_probe IS 'when the gateway asked for its health; NULL: it has not';
COMMENT ON COLUMN infer.stat_servers.next_probe IS 'when it will; NULL: not known yet, or the server is not probed';
COMMENT ON COLUMN infer.stat_servers.cooldown_until IS 'it has failed, and is left alone until then; NULL: it is not';
COMMENT ON COLUMN infer.stat_servers.excluded_until IS 'it was overloaded or not ready, and others are preferred until then; NULL: they are not';
COMMENT ON COLUMN infer.stat_servers.draining_until IS 'it takes nothing new until infer.undrain(), and what is in flight there has until then; NULL: it is in service';
COMMENT ON COLUMN infer.stat_servers.current_limit IS 'requests that may be in flight at once under its admission key; see infer.stat_admission';
COMMENT ON COLUMN infer.stat_servers.in_flight IS 'requests to it that are in flight';
COMMENT ON COLUMN infer.stat_servers.waiting IS 'processes that wait for a permit of its admission key';
COMMENT ON COLUMN infer.stat_servers.outstanding IS 'requests in flight, weighted with its penalty when they left';
COMMENT ON COLUMN infer.stat_servers.penalty IS 'what a request to it counts, by its own word: 1 to 1000';
COMMENT ON COLUMN infer.stat_servers.latency_p50 IS 'half of the answers of the last minutes took no longer; NULL: there were none';
COMMENT ON COLUMN infer.stat_servers.latency_p99 IS 'nor did 99 of 100 take longer than this';
COMMENT ON COLUMN infer.stat_servers.answers IS 'requests that had a result';
COMMENT ON COLUMN infer.stat_servers.failures IS 'requests that had none, but for those that were given up';
COMMENT ON COLUMN infer.stat_servers.errors IS 'the failures by reason';
COMMENT ON COLUMN infer.stat_servers.not_admitted IS 'failures that provably reached no model';
COMMENT ON COLUMN infer.stat_servers.maybe_executed IS 'failures that may have run';
COMMENT ON COLUMN infer.stat_servers.executed IS 'failures that ran, without a usable answer';
COMMENT ON COLUMN infer.stat_servers.last_answer IS 'when the last result came';
COMMENT ON COLUMN infer.stat_servers.last_failure IS 'reason of the last failure, also when it has been well since; NULL: none';
COMMENT ON COLUMN infer.stat_servers.hedges_sent IS 'second copies of slow requests, sent to it';
COMMENT ON COLUMN infer.stat_servers.hedges_won IS 'those of them that answered first';
COMMENT ON COLUMN infer.stat_servers.late IS 'answers that nobody waited for any more';
COMMENT ON COLUMN infer.stat_servers.incarnation IS 'which start of it answers, by the option incarnation; NULL: not known';
COMMENT ON COLUMN infer.stat_servers.incarnations IS 'times that it became another one';
COMMENT ON COLUMN infer.stat_servers.address IS 'the address that its name stands for, as the gateway found; NULL: not known';
COMMENT ON COLUMN infer.stat_servers.admission_key IS 'what it shares its permits by';
COMMENT ON COLUMN infer.stat_servers.generation IS 'counts the servers and urls that had this place in the table: with another one all above began anew';
COMMENT ON VIEW infer.stat_nodes IS
	'Nodes: what hosts servers in use, by their option node. Whose servers are counted: as in infer.stat_servers';
COMMENT ON COLUMN infer.stat_nodes.database IS 'database of the servers';
COMMENT ON COLUMN infer.stat_nodes.node IS 'the option of its servers, or the name of one that has none';
COMMENT ON COLUMN infer.stat_nodes.servers IS 'servers on it that are in use';
COMMENT ON COLUMN infer.stat_nodes.healthy IS 'those of them that are up';
COMMENT ON COLUMN infer.stat_nodes.in_flight IS 'requests to them that are in flight';
COMMENT ON COLUMN infer.stat_nodes.duration_weight IS 'weights of the LONG and EPIC ones among these';
COMMENT ON COLUMN infer.stat_nodes.load_factor IS '75th percentile of how busy its servers were of late, when they were not idle; 0: idle, or not known';
COMMENT ON COLUMN infer.stat_nodes.health_factor IS 'sum of what its healthy servers count, by pg_inference.health_weights; 0: none, or not known';
COMMENT ON FUNCTION infer.explain_route(text, jsonb, jsonb) IS
	'Where a request to the model with these routing keys and parameters would go now; nothing is sent. Phase 1: placements that cannot serve it, and why; 2: the nodes that are left, as they rank; 3: their placements, in the order in which they are tried. Runs the model''s classification functions';
COMMENT ON FUNCTION infer.ref(text, name) IS
	'A service reference, to be given in place of a model''s name: the model on the server that a call would go to now, or the given one, as long as it is the same incarnation. Plain data, good to store; sends nothing. A call by it fails (stale_incarnation) once the server was started anew (its option incarnation), its url has changed, or PostgreSQL was restarted';
COMMENT ON FUNCTION infer.ref_to_bytes(text) IS
	'A service reference as bytes, with a checksum';
COMMENT ON FUNCTION infer.ref_from_bytes(bytea) IS
	'The service reference that infer.ref_to_bytes() has made bytes of; an error if they are not as they were';
COMMENT ON FUNCTION infer.latency_histogram(name) IS
	'What answers of a server of this database took, in buckets: all since start or stat_reset(), and those of the last minutes. For those who may use the server, or read all statistics';
COMMENT ON FUNCTION infer.stat_reset() IS
	'Sets the counters and peaks of infer.stat_admission and stat_servers to zero, where limits and states stay, and forgets what infer.stat_models shows. For superusers, and roles granted EXECUTE';
COMMENT ON FUNCTION infer.apply_limits(text) IS
	'The limits of a server (its options max_concurrency, rpm and tpm, and this session''s limiter settings) count at once for its admission key, also for statements that run. For owners of the server that configured the key, and superusers';
COMMENT ON FUNCTION infer.statement_errors() IS
	'Failed calls of the last statement of this session that made calls, also after an error ended it: the first 1,000 one by one, the others by cause (ordinal is NULL, calls counts them). input_md5 is md5(input), of its UTF-8 bytes. Shows calls made as roles whose rights you have, all to pg_read_all_stats';
COMMENT ON FUNCTION infer.version() IS
	'Version of the library in use, for example 0.1.0';

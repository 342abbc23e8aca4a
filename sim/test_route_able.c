/*
 * sim/test_route_able.c - which places cannot serve a request by what they are, and in which state:
 * phase 1 of gateway.md section 3.
 *
 * gw_3_*, gw_8_*: sections of the gateway's page; fail_P*: the numbered statements on delivery.
 */
#include "route_kit.h"
#include "tap.h"

static void
classes(const char *a1, const char *a2, const char *b1, const char *b2)
{
	two_by_two();
	places[0].service_class = a1;
	places[1].service_class = a2;
	places[2].service_class = b1;
	places[3].service_class = b2;
}

static void
test_gw_3_service_classes(void)
{
	classes("embed", "chat", "embed", "rerank");
	request.service_classes = NAMES("embed");
	decide(0);
	CHECK(d.n_order == 2 && d.n_plan == 1 && same(reason("a2"), "service_classes"));
	/* one server for each, on the node that has all */
	request.service_classes = NAMES("chat", "embed");
	CHECK(same(always(), "a2 a1"));
	places[2].node_load = 0;
	places[0].node_load = places[1].node_load = 0.9;
	CHECK(same(always(), "a2 a1"));
	/* none has: from several */
	request.service_classes = NAMES("chat", "rerank");
	CHECK(same(always(), "a2 b2"));
	request.is_solo = true;
	decide(0);
	CHECK(d.cause == INFER_CAUSE_NO_DEST && d.reason == INFER_BY_SOLO);
	request.is_solo = false;
	/* one that nobody has, and one that is down */
	request.service_classes = NAMES("chat", "paint");
	decide(0);
	CHECK(d.cause == INFER_CAUSE_NO_DEST && d.reason == INFER_BY_INCOMPLETE);
	CHECK(same(d.target, "paint") && same(reason("a2"), "incomplete"));
	request.service_classes = NAMES("chat", "rerank");
	places[3].state = INFER_PLACE_FAILED;
	decide(0);
	CHECK(d.cause == INFER_CAUSE_ALL_FAILED && d.reason == INFER_BY_INCOMPLETE);
	request.service_classes = NAMES("paint");
	decide(0);
	CHECK(d.cause == INFER_CAUSE_NO_DEST && d.reason == INFER_BY_SERVICE_CLASSES);
}

static void
test_gw_3_is_solo(void)
{
	classes("embed", "chat", "embed", "rerank");
	request.is_solo = true;
	request.service_classes = NAMES("chat", "embed");
	CHECK(same(always(), "a2 a1"));
	CHECK(d.n_order == 2 && same(reason("b1"), "is_solo"));
	places[1].state = INFER_PLACE_FAILED;
	decide(0);
	CHECK(d.cause == INFER_CAUSE_ALL_FAILED && same(reason("a2"), "failed"));
	/* with one class every node is whole */
	two_by_two();
	request.is_solo = true;
	decide(0);
	CHECK(d.n_order == 4 && d.n_plan == 1);
}

static void
test_gw_3_include_and_classes(void)
{
	classes("embed", "chat", "embed", "chat");
	request.service_classes = NAMES("embed", "chat");
	/* the server names its node: the other class comes from there */
	request.prefs[INFER_ROUTE_INCLUDE] = NAMES("b2");
	CHECK(same(always(), "b2 b1"));
	CHECK(same(reason("a2"), "include"));
	request.prefs[INFER_ROUTE_INCLUDE] = NAMES("a", "b");
	CHECK(same(always(), "a1 a2 b1 b2"));
	request.prefs[INFER_ROUTE_INCLUDE] = NAMES("a1", "b2");
	CHECK(same(always(), "a1 b2"));
	/* a node that is in the plan already gets nothing more */
	request.prefs[INFER_ROUTE_INCLUDE] = NAMES("b2", "b");
	request.prefs[INFER_ROUTE_PREFER] = NAMES("b1");
	places[3].service_class = "embed";
	request.service_classes = NAMES("embed");
	CHECK(same(always(), "b2"));
	/* ... or from elsewhere, if it is not there */
	classes("embed", "chat", "embed", "embed");
	request.service_classes = NAMES("embed", "chat");
	request.prefs[INFER_ROUTE_INCLUDE] = NAMES("b2");
	CHECK(same(always(), "b2 a2"));
}

/* One version for all classes, where there is one. */
static void
test_gw_3_classes_and_versions(void)
{
	classes("embed", "chat", "embed", "chat");
	request.service_classes = NAMES("embed", "chat");
	places[0].version = 100;
	places[1].version = 101;
	places[2].version = 101;
	places[3].version = 101;
	decide(0);
	CHECK(same(reason("a1"), "test_ctl") && d.n_order == 3);
	CHECK(same(always(), "b1 b2"));
	/* where there is none, each class has its own */
	places[2].version = 102;
	decide(0);
	CHECK(same(reason("b1"), "test_ctl") && d.n_order == 3);
	request.test_ctl = INFER_TEST_TEST;
	decide(0);
	CHECK(same(reason("a1"), "test_ctl") && d.n_order == 3);
	/* a node has what it has */
	request.test_ctl = INFER_TEST_PROD;
	request.is_solo = true;
	decide(0);
	CHECK(d.n_order == 4);
	places[2].version = 101;
	CHECK(same(always(), "b1 b2") && d.n_order == 2);
	CHECK(same(reason("a1"), "test_ctl") && same(reason("a2"), "is_solo"));
	/* each version has all, but on two nodes */
	places[1].version = 101;
	places[2].version = 101;
	places[3].version = 100;
	decide(0);
	CHECK(d.n_order == 4);
	/* what completes the classes beside what is included is a choice by itself */
	classes("embed", "paint", "chat", "chat");
	request.service_classes = NAMES("embed", "chat");
	request.prefs[INFER_ROUTE_INCLUDE] = NAMES("b");
	places[0].version = places[2].version = 200;
	CHECK(same(always(), "b2 a1") && same(reason("b1"), "test_ctl"));
}

/* What left nothing, and so what would help. */
static void
test_gw_3_causes(void)
{
	two_by_two();
	nplaces = 0;
	decide(0);
	CHECK(d.cause == INFER_CAUSE_NO_DEST && d.reason == INFER_BY_NOTHING);
	two_by_two();
	for (int i = 0; i < nplaces; i++)
		places[i].permitted = false;
	decide(0);
	CHECK(d.cause == INFER_CAUSE_NO_PRIVILEGE && d.reason == INFER_BY_PRIVILEGE);
	places[1].permitted = true;
	places[1].state = INFER_PLACE_DEAD;
	decide(0);
	CHECK(d.cause == INFER_CAUSE_STALE && d.reason == INFER_BY_DEAD);
	places[2].permitted = true;
	places[2].state = INFER_PLACE_DRAINING;
	decide(0);
	CHECK(d.cause == INFER_CAUSE_DRAINING && d.reason == INFER_BY_DRAINING);
	places[3].permitted = true;
	places[3].state = INFER_PLACE_FAILED;
	decide(0);
	CHECK(d.cause == INFER_CAUSE_ALL_FAILED && d.reason == INFER_BY_FAILED);
	/* what a request asks for comes first: a server that it does not want may be down */
	request.prefs[INFER_ROUTE_EXCLUDE] = NAMES("a", "b");
	decide(0);
	CHECK(d.cause == INFER_CAUSE_NO_DEST && d.reason == INFER_BY_EXCLUDE);
	for (int i = 0; i < INFER_BY_COUNT; i++)
		CHECK(strcmp(infer_route_reason_name((InferRouteReason) i), "unknown") != 0);
}

/* As if they could be reached; not what never will. */
static void
test_fail_P57_probe(void)
{
	two_by_two();
	for (int i = 0; i < nplaces; i++)
		places[i].state = INFER_PLACE_FAILED;
	places[1].state = INFER_PLACE_DEAD;
	places[2].state = INFER_PLACE_DRAINING;
	places[3].outstanding = 5;
	decide(0);
	CHECK(d.cause == INFER_CAUSE_ALL_FAILED);
	request.probe = true;
	CHECK(same(always(), "a1"));
	CHECK(same(order(), "a1 b2"));
	/* chance spreads the probes of many calls */
	places[3].outstanding = 0;
	CHECK(same(always(), "depends"));
}

static void
test_gw_3_tiers(void)
{
	two_by_two();
	places[2].tier = 1;
	places[3].tier = 2;
	decide(0);
	CHECK(d.n_order == 2 && d.tier == 0 && same(reason("b1"), "tier"));
	places[0].excluded = places[1].excluded = true;
	decide(0);
	CHECK(d.n_order == 2 && d.tier == 0); /* overloaded is not down */
	places[0].state = places[1].state = INFER_PLACE_FAILED;
	CHECK(same(always(), "b1") && d.tier == 1 && d.n_order == 1);
	request.min_tier = 2;
	CHECK(same(always(), "b2") && d.tier == 2 && same(reason("b1"), "tier"));
	/* the least version is the model's, not its fallbacks' */
	request.min_tier = 0;
	request.min_version = 100;
	decide(0.5);
	CHECK(same(reason("a1"), "min_version") && d.tier == 1 && same(order(), "b1"));
	request.min_version = INFER_ROUTE_NO_VERSION;
	/* a tier without a class is passed over, and so is one without what is included */
	two_by_two();
	places[2].tier = places[3].tier = 1;
	places[1].service_class = places[3].service_class = "embed";
	request.service_classes = NAMES("chat", "embed");
	places[1].state = INFER_PLACE_FAILED;
	CHECK(same(always(), "b1 b2") && same(reason("a1"), "tier"));
	request.service_classes = (InferNames){0, NULL};
	request.prefs[INFER_ROUTE_INCLUDE] = NAMES("b2");
	CHECK(same(always(), "b2"));
	/* versions are a tier's own */
	two_by_two();
	places[0].version = places[1].version = 200;
	places[2].tier = places[3].tier = 1;
	decide(0);
	CHECK(d.n_order == 2 && d.tier == 0 && begins_with_node("a"));
}

/* A version that the request names is the model's: a fallback stands in for it, with the version
 * that it would serve otherwise.  It does not stand in for one that the model does not have. */
static void
test_gw_8_versions_of_fallbacks(void)
{
	two_by_two();
	places[0].version = 100;
	places[1].version = 200;
	places[2].tier = places[3].tier = 1;
	places[2].version = 300;
	places[3].version = 400;
	request.version = 200;
	CHECK(same(always(), "a2") && d.tier == 0 && d.n_order == 1);
	CHECK(same(reason("a1"), "version") && same(reason("b1"), "tier"));
	places[1].state = INFER_PLACE_FAILED;
	CHECK(same(always(), "b1") && d.tier == 1 && d.n_order == 1);
	CHECK(same(reason("a1"), "version") && same(reason("b2"), "test_ctl"));
	request.test_ctl = INFER_TEST_TEST;
	CHECK(same(always(), "b2"));
	places[3].version = INFER_ROUTE_NO_VERSION;
	request.test_ctl = INFER_TEST_PROD;
	CHECK(same(always(), "b2"));
	/* the fallback has it, the model not */
	request.version = 300;
	CHECK(same(always(), "-") && d.cause == INFER_CAUSE_NO_DEST);
	CHECK(d.reason == INFER_BY_VERSION && same(reason("b1"), "version"));
	/* used up, it is the model's all the same */
	request.version = 200;
	request.min_tier = 1;
	CHECK(same(always(), "b2") && d.tier == 1);
}

int
main(void)
{
	TEST(gw_3_service_classes);
	TEST(gw_3_is_solo);
	TEST(gw_3_include_and_classes);
	TEST(gw_3_classes_and_versions);
	TEST(gw_3_causes);
	TEST(fail_P57_probe);
	TEST(gw_3_tiers);
	TEST(gw_8_versions_of_fallbacks);
	return tap_done();
}

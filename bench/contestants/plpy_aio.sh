# PL/Python, one function over all rows: asyncio and aiohttp inside the backend, fixed concurrency, retries.
title="PL/Python + aiohttp, all rows at once"
extension=plpython3u
setup() {
    sql <<'SQL'
CREATE EXTENSION IF NOT EXISTS plpython3u;
CREATE OR REPLACE FUNCTION pya_post(url text, bodies text[], conc int) RETURNS SETOF text LANGUAGE plpython3u AS $$
    import asyncio, aiohttp, random
    async def one(session, sem, body):
        async with sem:
            for attempt in range(60):
                async with session.post(url, data=body.encode(), headers={"Content-Type": "application/json"}) as r:
                    if r.status == 200: return await r.text()
                    if r.status not in (429, 500, 502, 503): raise RuntimeError(f"HTTP {r.status}")
                    wait = float(r.headers.get("Retry-After", min(8, 0.1 * 2 ** attempt)))
                await asyncio.sleep(wait * random.uniform(1, 1.25))
            raise RuntimeError("gave up")
    async def main():
        sem = asyncio.Semaphore(conc)
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=conc), timeout=aiohttp.ClientTimeout(total=300)) as s:
            return await asyncio.gather(*(one(s, sem, b) for b in bodies))
    return asyncio.run(main())
$$;
CREATE OR REPLACE FUNCTION pya_embed(url text, bodies text[], ids int[], batch int, conc int, b64 bool) RETURNS TABLE (id int, v real[]) LANGUAGE plpython3u AS $$
    import asyncio, aiohttp, random, base64, array
    out = []
    async def one(session, sem, at):
        body = {"model": "mock", "input": bodies[at:at + batch]}
        if b64: body["encoding_format"] = "base64"
        async with sem:
            for attempt in range(60):
                async with session.post(url, json=body) as r:
                    if r.status == 200:
                        d = await r.json()
                        break
                    if r.status not in (429, 500, 502, 503): raise RuntimeError(f"HTTP {r.status}")
                    wait = float(r.headers.get("Retry-After", min(8, 0.1 * 2 ** attempt)))
                await asyncio.sleep(wait * random.uniform(1, 1.25))
        for e in d["data"]:
            v = e["embedding"]
            out.append((ids[at + e["index"]], array.array("f", base64.b64decode(v)).tolist() if b64 else v))
    async def main():
        sem = asyncio.Semaphore(conc)
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=conc), timeout=aiohttp.ClientTimeout(total=300)) as s:
            await asyncio.gather(*(one(s, sem, at) for at in range(0, len(bodies), batch)))
    asyncio.run(main())
    return out
$$;
SQL
}
embed="CREATE TABLE out AS SELECT e.* FROM (SELECT array_agg(body ORDER BY id) AS bodies, array_agg(id ORDER BY id) AS ids FROM input) i,
    pya_embed(:'url' || '/v1/embeddings', bodies, ids, :batch, :conc"
chat="SELECT id, answer::json -> 'choices' -> 0 -> 'message' ->> 'content' AS answer FROM
    (SELECT array_agg(json_build_object('model', 'mock', 'messages', json_build_array(json_build_object('role', 'user', 'content', body)))::text ORDER BY id) AS bodies,
        array_agg(id ORDER BY id) AS ids FROM input"
tail="i, ROWS FROM (pya_post(:'url' || '/v1/chat/completions', bodies, :conc), unnest(ids)) AS p(answer, id)"
job_J1() { echo "$embed, false) e;" | sql; }
job_J1b() { echo "$embed, true) e;" | sql; }
job_J2() { echo "CREATE TABLE out AS $chat) $tail;" | sql; }
job_J3() { job_J2; }
job_J6() { job_J2; }
job_J4() { job_J2; }
job_J7() { job_J2; }
job_J5() { echo "CREATE TABLE out AS SELECT id FROM ($chat WHERE kind = 'target') $tail) x WHERE answer = 'yes' LIMIT 10;" | sql; }

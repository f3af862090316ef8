# An independent reader of NATS streams: one JSON question per line, one JSON answer per line.
import asyncio
import json
import sys

import nats
from nats.js.api import AckPolicy, ConsumerConfig, DeliverPolicy, StreamConfig


async def messages(client, stream, pattern, policy):
    js = client.jetstream()
    try:
        config = ConsumerConfig(
            deliver_policy=policy, filter_subject=pattern, ack_policy=AckPolicy.NONE
        )
        info = await js.add_consumer(stream, config)
    except nats.js.errors.NotFoundError:
        return []
    found, left = [], info.num_pending
    if left:
        subscription = await js.pull_subscribe_bind(
            consumer=info.name, stream=stream
        )
        while left:
            try:
                batch = await subscription.fetch(min(left, 5000), timeout=1)
            except nats.errors.TimeoutError:
                # What was replaced meanwhile is counted and never comes.
                left = (await js.consumer_info(stream, info.name)).num_pending
                continue
            for message in batch:
                body = message.data.decode()
                found.append({
                    "subject": message.subject,
                    "headers": dict(message.headers or {}),
                    "body": json.loads(body) if body else None,
                    "sequence": message.metadata.sequence.stream,
                })
            left -= len(batch)
        await subscription.unsubscribe()
    await js.delete_consumer(stream, info.name)
    return found


async def raw(client, subject, payload):
    answer = await client.request(subject, json.dumps(payload).encode(), timeout=20)
    return json.loads(answer.data)


async def answer(client, question):
    op = question["op"]
    if op == "newest":
        policy = DeliverPolicy.LAST_PER_SUBJECT
        return await messages(client, question["stream"], question["pattern"], policy)
    if op == "all":
        policy = DeliverPolicy.ALL
        return await messages(client, question["stream"], question["pattern"], policy)
    if op == "stream":
        info = await raw(client, "$JS.API.STREAM.INFO." + question["stream"], {})
        return None if "error" in info else info
    if op in ("create", "delete"):
        name = question["config"]["name"] if op == "create" else question["stream"]
        subject = "$JS.API.STREAM.%s.%s" % (op.upper(), name)
        info = await raw(client, subject, question.get("config") or {})
        if "error" in info:
            raise ValueError(info["error"])
        return True
    raise ValueError("unknown question " + op)


async def main():
    lines = asyncio.StreamReader(limit=1 << 26)
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    client = None
    while line := await lines.readline():
        try:
            question = json.loads(line)
            if "servers" in question:
                client = await nats.connect(max_reconnect_attempts=-1, **question)
                said = True
            else:
                said = await answer(client, question)
            text = {"answer": said}
        except Exception as error:
            text = {"error": repr(error)}
        print(json.dumps(text), flush=True)


asyncio.run(main())

"""Reads and prepares topics for tests: one JSON object per line in, one out."""

import json
import sys
import time

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ConfigResource,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

broker = sys.argv[1]
admin = AdminClient({"bootstrap.servers": broker})
consumer = Consumer(
    {
        "bootstrap.servers": broker,
        "group.id": "reader",
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "fetch.wait.max.ms": 5,
        "topic.metadata.refresh.interval.ms": 500,
    }
)


def partitions(topic):
    found = admin.list_topics(topic, timeout=30).topics[topic]
    if found.error is not None:
        return None
    return sorted(found.partitions)


def records(topic):
    """All records of a topic, in the order of their partitions."""
    numbers = partitions(topic)
    if not numbers:
        return []
    consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in numbers])
    unfinished, found, deadline = set(numbers), [], time.time() + 60
    while unfinished:
        for message in consumer.consume(10000, 0.05):
            if message.topic() != topic:
                continue
            if message.error() is None:
                found.append(message)
            elif message.error().code() == KafkaError._PARTITION_EOF:
                unfinished.discard(message.partition())
        if time.time() > deadline:
            raise TimeoutError(topic)
    consumer.unassign()
    found.sort(key=lambda message: (message.partition(), message.offset()))
    return found


def shown(message):
    value = message.value()
    return {
        "partition": message.partition(),
        "offset": message.offset(),
        "key": message.key().decode(),
        "value": None if value is None else json.loads(value),
        "headers": {name: value.decode() for name, value in message.headers() or []},
    }


def newest(topic):
    last = {}
    for message in records(topic):
        last[message.key()] = message.value()
    return [json.loads(value) for value in last.values() if value is not None]


def ends(topic):
    numbers = partitions(topic)
    if numbers is None:
        return None
    return [consumer.get_watermark_offsets(TopicPartition(topic, n), timeout=30)[1] for n in numbers]


def create(topic, count=3, config=None):
    for future in admin.create_topics([NewTopic(topic, count, 1, config=config or {})]).values():
        future.result(30)
    while not partitions(topic):
        time.sleep(0.02)


def delete(topic):
    for future in admin.delete_topics([topic]).values():
        future.result(30)
    while partitions(topic) is not None:
        time.sleep(0.02)


def config(topic):
    for future in admin.describe_configs([ConfigResource(ConfigResource.Type.TOPIC, topic)]).values():
        return {name: entry.value for name, entry in future.result(30).items()}


def forget(topic):
    """Drops all records, as a retention does."""
    numbers = partitions(topic)
    offsets = [TopicPartition(topic, number, -1) for number in numbers]
    for future in admin.delete_records(offsets).values():
        future.result(30)


def allow(topic, user, operations):
    """Only this user may do only these things with the topic."""
    rules = [
        AclBinding(
            ResourceType.TOPIC,
            topic,
            ResourcePatternType.LITERAL,
            "User:" + user,
            "*",
            AclOperation[operation],
            AclPermissionType.ALLOW,
        )
        for operation in operations
    ]
    for future in admin.create_acls(rules).values():
        future.result(30)


def murmur2(topic, keys):
    """Where librdkafka puts these keys with the function of the Java client."""
    probe = topic + "-murmur2"
    create(probe, len(partitions(topic)))
    chosen = {}
    producer = Producer({"bootstrap.servers": broker, "partitioner": "murmur2"})
    for key in keys:
        producer.produce(
            probe, key=key, value="", callback=lambda _, m: chosen.update({m.key(): m.partition()})
        )
    producer.flush(30)
    return [chosen[key.encode()] for key in keys]


operations = {
    "records": lambda topic: [shown(message) for message in records(topic)],
    "newest": newest,
    "ends": ends,
    "partitions": partitions,
    "create": create,
    "delete": delete,
    "config": config,
    "forget": forget,
    "allow": allow,
    "murmur2": murmur2,
}
for line in sys.stdin:
    request = json.loads(line)
    try:
        answer = {"ok": operations[request.pop("do")](**request)}
    except Exception as error:  # the test tells what it asked for
        answer = {"error": repr(error)}
    print(json.dumps(answer), flush=True)

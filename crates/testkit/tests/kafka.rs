//! The Kafka of the tests, seen by the client of its own makers' protocol in another language.

use std::fs;
use std::process::Command;

use kollect_testkit::{Kafka, RunDir, kafka::USER, python};

const SCRIPT: &str = r#"
import sys
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

kind, broker, topic, password, ca, cert, key = sys.argv[1:]
common = {"bootstrap.servers": broker, "socket.timeout.ms": 20000}
if kind.startswith("SCRAM") or kind == "PLAIN":
    common.update({"security.protocol": "SASL_SSL", "sasl.mechanism": kind,
        "sasl.username": "kollect", "sasl.password": password, "ssl.ca.location": ca})
elif kind == "mutual":
    common.update({"security.protocol": "SSL", "ssl.ca.location": ca,
        "ssl.certificate.location": cert, "ssl.key.location": key})
admin = AdminClient(common)
for future in admin.create_topics([NewTopic(topic, 1, 1)]).values():
    future.result(30)
producer = Producer(common)
producer.produce(topic, key="k", value="v")
assert producer.flush(30) == 0
consumer = Consumer({**common, "group.id": "g"})
consumer.assign([TopicPartition(topic, 0, 0)])
message = consumer.poll(30)
print(message.key().decode(), message.value().decode())
consumer.close()
"#;

#[test]
fn all_listeners_serve_and_a_restart_keeps_the_data() {
    let mut kafka = Kafka::start().unwrap();
    let python = python::environment(&["confluent-kafka==2.16.1"]).unwrap();
    let run = RunDir::new("kafka-client").unwrap();
    let client = kafka.client(USER).unwrap();
    let ca = run.write_private("ca", kafka.ca_pem()).unwrap();
    let cert = run.write_private("cert", client.cert_pem).unwrap();
    let key = run.write_private("key", client.key_pem).unwrap();
    let script = run.join("script.py");
    fs::write(&script, SCRIPT).unwrap();
    let wire = kafka.wire().unwrap();
    for (kind, broker) in [
        ("none", kafka.plain()),
        ("SCRAM-SHA-256", kafka.sasl()),
        ("SCRAM-SHA-512", kafka.sasl()),
        ("PLAIN", kafka.sasl()),
        ("mutual", kafka.mutual()),
    ] {
        let output = Command::new(&python)
            .arg(&script)
            .args([kind, &broker, &format!("t-{kind}"), kafka.password()])
            .args([&ca, &cert, &key])
            .output()
            .unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(
            String::from_utf8_lossy(&output.stdout),
            "k v\n",
            "{kind}: {stderr}"
        );
    }
    assert_ne!(wire.broker(), kafka.plain());
    let pid = kafka.server().pid();
    kafka.server().kill().unwrap();
    kafka.server().resume().unwrap();
    assert_ne!(kafka.server().pid(), pid);
}

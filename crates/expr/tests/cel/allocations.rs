//! Extraction is the inner loop: an evaluation allocates for what it builds and for nothing else.

use kollect_expr::cel::Program;
use serde_json::{Value, json};

fn deployment() -> Value {
    json!({
        "metadata": {"name": "web", "namespace": "team-a", "labels": {"app": "web"}},
        "spec": {"replicas": 3, "template": {"spec": {"containers": [
            {"name": "app", "image": "app:1.0"}, {"name": "side", "image": "side:2.0"}]}}},
        "status": {"readyReplicas": 2, "conditions": [
            {"type": "Progressing", "status": "True"}, {"type": "Available", "status": "True"}]},
    })
}

#[test]
fn evaluations_allocate_what_they_build() {
    let object = deployment();
    let table = [
        ("object.metadata.name", 0),
        ("object.metadata.labels", 0),
        (
            "has(object.status.readyReplicas) ? object.status.readyReplicas : 0",
            0,
        ),
        ("size(object.spec.template.spec.containers)", 0),
        ("object.spec.replicas == object.status.readyReplicas", 0),
        (
            "has(object.status.conditions) && object.status.conditions.exists(c, c.type == 'Available' && c.status == 'True')",
            0,
        ),
        (
            "object.spec.template.spec.containers.all(c, c.image.contains(':'))",
            0,
        ),
        (
            "object.spec.template.spec.containers.exists(c, c.image.matches('^side'))",
            0,
        ),
        ("object.metadata.name in ['web', 'api']", 0),
        ("['web', 'api'].exists(x, x == object.metadata.name)", 0),
        ("object.metadata.name.startsWith('w') ? 'yes' : 'no'", 0),
        // The list of results.
        ("object.spec.template.spec.containers.map(c, c.image)", 1),
        // The text, and the count of those who hold it.
        ("object.metadata.namespace + '/' + object.metadata.name", 2),
        // The place in the error.
        ("object.metadata.labels['missing']", 1),
    ];
    for (expression, most) in table {
        let program = Program::compile(expression).unwrap();
        // Regular expressions make their caches on first use.
        let _ = program.evaluate(&object);
        let info = allocation_counter::measure(|| {
            let _ = std::hint::black_box(program.evaluate(&object));
        });
        assert!(
            info.count_total <= most,
            "{expression}: {} allocations",
            info.count_total
        );
    }
}

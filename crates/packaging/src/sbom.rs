//! What the program is made of, as CycloneDX: every crate that is linked into it, with version,
//! licence, checksum and what it depends on.
//!
//! From `cargo metadata` and `Cargo.lock`; no tool has to be installed for it. What only tests or
//! builds use is not part of the program, and not in the list.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

use crate::{Moment, sha256};

/// The list for one program of the workspace. `metadata` is what cargo says of all packages, `lock`
/// the text of `Cargo.lock`.
pub fn bom(metadata: &Value, lock: &str, program: &str, moment: Moment) -> Result<String> {
    let empty = Vec::new();
    let list = |value: &Value| value.as_array().unwrap_or(&empty).clone();
    let packages: BTreeMap<String, Value> = list(&metadata["packages"])
        .into_iter()
        .filter_map(|package| Some((package["id"].as_str()?.to_owned(), package)))
        .collect();
    let linked: BTreeMap<String, Vec<String>> = list(&metadata["resolve"]["nodes"])
        .iter()
        .filter_map(|node| Some((node["id"].as_str()?.to_owned(), linked(node))))
        .collect();
    let root = packages
        .iter()
        .find(|(_, package)| package["name"] == program)
        .map(|(id, _)| id.clone())
        .with_context(|| format!("cargo metadata knows no package {program}"))?;

    let mut reached = BTreeSet::from([root.clone()]);
    let mut waiting = VecDeque::from([root.clone()]);
    while let Some(id) = waiting.pop_front() {
        for dependency in linked.get(&id).into_iter().flatten() {
            if reached.insert(dependency.clone()) {
                waiting.push_back(dependency.clone());
            }
        }
    }

    let checksums = checksums(lock);
    let mut components = Vec::new();
    let mut dependencies = Vec::new();
    for id in &reached {
        let package = packages
            .get(id)
            .with_context(|| format!("cargo metadata does not describe {id}"))?;
        if *id != root {
            components.push(component(package, "library", &checksums));
        }
        let on: BTreeSet<String> = linked
            .get(id)
            .into_iter()
            .flatten()
            .filter_map(|id| packages.get(id).map(purl))
            .collect();
        dependencies.push(json!({"ref": purl(package), "dependsOn": on}));
    }
    let order = |value: &Value| value["bom-ref"].to_string();
    components.sort_by_key(order);
    dependencies.sort_by_key(|value| value["ref"].to_string());
    let mut bom = json!({
        "$schema": "http://cyclonedx.org/schema/bom-1.5.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "timestamp": moment.text()?,
            "component": component(&packages[&root], "application", &checksums),
        },
        "components": components,
        "dependencies": dependencies,
    });
    // A number of its own for every content, and the same for the same.
    bom["serialNumber"] = json!(uuid(&sha256(bom.to_string().as_bytes())));
    Ok(format!("{bom:#}\n"))
}

/// What a package links: not what only its tests or its build use.
fn linked(node: &Value) -> Vec<String> {
    let dependencies = node["deps"].as_array().into_iter().flatten();
    dependencies
        .filter(|dependency| {
            let mut kinds = dependency["dep_kinds"].as_array().into_iter().flatten();
            kinds.any(|kind| kind["kind"].is_null())
        })
        .filter_map(|dependency| dependency["pkg"].as_str().map(str::to_owned))
        .collect()
}

fn component(package: &Value, sort: &str, checksums: &BTreeMap<String, String>) -> Value {
    let text = |key: &str| package[key].as_str();
    let mut component = json!({
        "type": sort,
        "bom-ref": purl(package),
        "name": package["name"],
        "version": package["version"],
        "purl": purl(package),
        "scope": "required",
    });
    if let Some(description) = text("description") {
        component["description"] = json!(description.trim());
    }
    if let Some(licence) = text("license") {
        // An old spelling of "or" that crates still use.
        let licence = licence.replace('/', " OR ");
        component["licenses"] = json!([{"expression": licence}]);
    }
    if let Some(checksum) = checksums.get(&name_and_version(package)) {
        component["hashes"] = json!([{"alg": "SHA-256", "content": checksum}]);
    }
    if let Some(repository) = text("repository").filter(|url| url.starts_with("https://")) {
        component["externalReferences"] = json!([{"type": "vcs", "url": repository}]);
    }
    component
}

fn purl(package: &Value) -> String {
    format!("pkg:cargo/{}", name_and_version(package))
}

fn name_and_version(package: &Value) -> String {
    let text = |key: &str| package[key].as_str().unwrap_or_default();
    // A plus in a version begins build metadata; in an address it would be a blank.
    format!("{}@{}", text("name"), text("version").replace('+', "%2B"))
}

/// The checksums of packages, by `name@version`.
fn checksums(lock: &str) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for package in lock.split("[[package]]") {
        let field = |key: &str| {
            let mut lines = package.lines();
            let begin = format!("{key} = \"");
            lines.find_map(|line| line.strip_prefix(&begin)?.strip_suffix('"'))
        };
        if let (Some(name), Some(version), Some(checksum)) =
            (field("name"), field("version"), field("checksum"))
        {
            let key = format!("{name}@{}", version.replace('+', "%2B"));
            found.insert(key, checksum.to_owned());
        }
    }
    found
}

/// A number in the form of a UUID (version 8: of our own making) from a hash.
fn uuid(hash: &str) -> String {
    format!(
        "urn:uuid:{}-{}-8{}-8{}-{}",
        &hash[0..8],
        &hash[8..12],
        &hash[13..16],
        &hash[17..20],
        &hash[20..32]
    )
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::bom;
    use crate::Moment;

    #[test]
    fn what_is_linked_is_listed_and_what_only_tests_use_is_not() {
        let package = |name: &str| json!({"id": name, "name": name, "version": "1.0.0+x", "license": "MIT/Apache-2.0"});
        let dependency =
            |name: &str, kind: Value| json!({"pkg": name, "dep_kinds": [{"kind": kind}]});
        let packages = ["program", "used", "deep", "tests", "other"].map(package);
        let metadata = json!({
            "packages": packages,
            "resolve": {"nodes": [
                {"id": "program", "deps": [dependency("used", Value::Null), dependency("tests", json!("dev"))]},
                {"id": "used", "deps": [dependency("deep", Value::Null)]},
                {"id": "deep", "deps": []},
                {"id": "tests", "deps": []},
                {"id": "other", "deps": []},
            ]},
        });
        let lock = "[[package]]\nname = \"deep\"\nversion = \"1.0.0+x\"\nchecksum = \"ab\"\n";
        let text = bom(&metadata, lock, "program", Moment(0)).unwrap();
        assert_eq!(text, bom(&metadata, lock, "program", Moment(0)).unwrap());
        let bom: Value = serde_json::from_str(&text).unwrap();
        let components = bom["components"].as_array().unwrap();
        let names: Vec<&Value> = components
            .iter()
            .map(|component| &component["name"])
            .collect();
        assert_eq!(names, ["deep", "used"]);
        assert_eq!(components[0]["hashes"][0]["content"], "ab");
        assert_eq!(components[0]["purl"], "pkg:cargo/deep@1.0.0%2Bx");
        assert_eq!(
            components[0]["licenses"][0]["expression"],
            "MIT OR Apache-2.0"
        );
        assert_eq!(bom["dependencies"].as_array().unwrap().len(), 3);
        assert_eq!(bom["metadata"]["component"]["name"], "program");
    }
}

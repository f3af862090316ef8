//! `kollect schema`: JSON Schemas of manifests, for editors.

use std::{
    fs,
    io::{self, Write as _},
    path::PathBuf,
};

use anyhow::{Context as _, Result, bail};
use clap::Args;
use kollect_api::crd;
use serde_json::{Value, json};

use crate::manifest::nearest;

/// Options of `kollect schema`.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// A kind, such as KollectProfile. A schema for any of our kinds if not given.
    #[arg(value_name = "KIND")]
    kind: Option<String>,
    /// Write one file per kind, and one for any of them, into this directory.
    #[arg(long, value_name = "DIR", conflicts_with = "kind")]
    output_dir: Option<PathBuf>,
}

/// Prints or writes schemas.
pub(crate) fn run(options: &Options) -> Result<()> {
    let schemas = schemas();
    if let Some(directory) = &options.output_dir {
        fs::create_dir_all(directory)
            .with_context(|| format!("cannot create {}", directory.display()))?;
        let any = ("kollect".to_owned(), any(&schemas));
        for (kind, schema) in schemas.iter().chain([&any]) {
            let path = directory.join(format!("{}.json", kind.to_lowercase()));
            fs::write(&path, format!("{schema:#}\n"))
                .with_context(|| format!("cannot write {}", path.display()))?;
        }
        return Ok(());
    }
    let schema = match &options.kind {
        None => any(&schemas),
        Some(wanted) => {
            let found = schemas
                .iter()
                .find(|(kind, _)| kind.eq_ignore_ascii_case(wanted));
            let kinds = || schemas.iter().map(|(kind, _)| kind.as_str());
            match (found, nearest(wanted, kinds())) {
                (Some((_, schema)), _) => schema.clone(),
                (None, Some(meant)) => bail!("there is no kind {wanted:?}; did you mean {meant}?"),
                (None, None) => bail!(
                    "there is no kind {wanted:?}; there are {}",
                    kinds().collect::<Vec<_>>().join(", ")
                ),
            }
        }
    };
    match io::stdout()
        .lock()
        .write_all(format!("{schema:#}\n").as_bytes())
    {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(()),
    }
}

/// The schema of every kind, as its definition has it.
fn schemas() -> Vec<(String, Value)> {
    let definitions = crd::all().into_iter().map(|definition| {
        let kind = definition.spec.names.kind.clone();
        let definition = serde_json::to_value(&definition).unwrap_or_default();
        let schema = definition.pointer("/spec/versions/0/schema/openAPIV3Schema");
        let mut schema = schema.cloned().unwrap_or_default();
        schema["$schema"] = "http://json-schema.org/draft-07/schema#".into();
        schema["title"] = kind.as_str().into();
        schema["properties"]["apiVersion"] = json!({"const": kollect_api::meta::API_VERSION});
        schema["properties"]["kind"] = json!({"const": kind});
        schema["required"] = json!(["apiVersion", "kind", "metadata", "spec"]);
        close(&mut schema["properties"]["spec"]);
        (kind, schema)
    });
    definitions.collect()
}

/// What a definition does not know the API server drops, and an editor should say so.
fn close(schema: &mut Value) {
    let open = schema.get("additionalProperties").is_some()
        || schema.get("x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(true));
    let Some(members) = schema.as_object_mut() else {
        return;
    };
    if let Some(Value::Object(properties)) = members.get_mut("properties") {
        for property in properties.values_mut() {
            close(property);
        }
        if !open {
            members.insert("additionalProperties".to_owned(), false.into());
        }
    }
    if let Some(items) = members.get_mut("items") {
        close(items);
    }
}

/// A schema that knows all kinds.
fn any(schemas: &[(String, Value)]) -> Value {
    let schemas: Vec<&Value> = schemas.iter().map(|(_, schema)| schema).collect();
    json!({
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "Kollect",
        "oneOf": schemas,
    })
}

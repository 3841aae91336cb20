//! The models of AWS's services, from the Python package `botocore`.
//!
//! Of each service that ACK has kinds for (and of STS) the published model is kept without prose, examples,
//! patterns, limits and the values of enumerations, together with its paginators; one compressed file each.
//! Where the services listen comes from botocore's endpoint rules.
//! All operations stay: without the rest, all models together are smaller than one photograph, and a rule
//! may name any of them.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail, ensure};
use serde_json::{Map, Value, json};

const PACKAGE: &str = "botocore==1.44.0";

/// The name in ACK's API groups, and the name in botocore where it is another.
const SERVICES: &[(&str, &str)] = &[
    ("acm", ""),
    ("acmpca", "acm-pca"),
    ("apigateway", ""),
    ("apigatewayv2", ""),
    ("applicationautoscaling", "application-autoscaling"),
    ("athena", ""),
    ("autoscaling", ""),
    ("backup", ""),
    ("bedrock", ""),
    ("bedrockagent", "bedrock-agent"),
    ("bedrockagentcorecontrol", "bedrock-agentcore-control"),
    ("cloudfront", ""),
    ("cloudtrail", ""),
    ("cloudwatch", ""),
    ("cloudwatchlogs", "logs"),
    ("codeartifact", ""),
    ("cognitoidentityprovider", "cognito-idp"),
    ("documentdb", "docdb"),
    ("dynamodb", ""),
    ("ec2", ""),
    ("ecr", ""),
    ("ecrpublic", "ecr-public"),
    ("ecs", ""),
    ("efs", ""),
    ("eks", ""),
    ("elasticache", ""),
    ("elasticsearchservice", "es"),
    ("elbv2", ""),
    ("emrcontainers", "emr-containers"),
    ("emrserverless", "emr-serverless"),
    ("eventbridge", "events"),
    ("firehose", ""),
    ("iam", ""),
    ("kafka", ""),
    ("keyspaces", ""),
    ("kinesis", ""),
    ("kms", ""),
    ("lambda", ""),
    ("lambdamicrovms", "lambda-microvms"),
    ("memorydb", ""),
    ("mq", ""),
    ("mwaa", ""),
    ("networkfirewall", "network-firewall"),
    ("networkmanager", ""),
    ("opensearchserverless", ""),
    ("opensearchservice", "opensearch"),
    ("organizations", ""),
    ("pipes", ""),
    ("prometheusservice", "amp"),
    ("quicksight", ""),
    ("ram", ""),
    ("rds", ""),
    ("recyclebin", "rbin"),
    ("route53", ""),
    ("route53resolver", ""),
    ("s3", ""),
    ("s3control", ""),
    ("s3tables", ""),
    ("s3vectors", ""),
    ("sagemaker", ""),
    ("secretsmanager", ""),
    ("ses", ""),
    ("sfn", "stepfunctions"),
    ("sns", ""),
    ("sqs", ""),
    ("ssm", ""),
    ("sts", ""),
    ("wafv2", ""),
];

/// What of the head is kept.
const METADATA: &[&str] = &[
    "apiVersion",
    "awsQueryCompatible",
    "endpointPrefix",
    "globalEndpoint",
    "jsonVersion",
    "protocol",
    "protocols",
    "serviceId",
    "signatureVersion",
    "signingName",
    "targetPrefix",
    "xmlNamespace",
];

/// What of an operation is kept.
const OPERATION: &[&str] = &[
    "auth",
    "authtype",
    "endpoint",
    "errors",
    "http",
    "httpChecksum",
    "httpChecksumRequired",
    "input",
    "output",
    "readonly",
    "unsignedPayload",
];

/// What of a shape, or of a reference to one, is kept.
const SHAPE: &[&str] = &[
    "box",
    "contextParam",
    "document",
    "enum",
    "error",
    "eventheader",
    "eventpayload",
    "eventstream",
    "exception",
    "fault",
    "flattened",
    "hostLabel",
    "idempotencyToken",
    "jsonvalue",
    "key",
    "location",
    "locationName",
    "member",
    "members",
    "payload",
    "queryName",
    "required",
    "resultWrapper",
    "retryable",
    "sensitive",
    "shape",
    "streaming",
    "timestampFormat",
    "type",
    "union",
    "value",
    "xmlAttribute",
    "xmlNamespace",
];

const PAGES: &[&str] = &["input_token", "limit_key", "more_results", "output_token", "result_key"];

/// Writes or compares every model and the table of them.
pub fn settle(root: &Path, check: bool) -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let package = install(folder.path())?;
    let models = root.join("crates/aws/data/models");
    std::fs::create_dir_all(&models)?;
    let mut size = 0;
    let mut table = String::from("// Made by `cargo xtask generate aws`.\n&[\n");
    let mut wanted = BTreeSet::new();
    for (name, published) in SERVICES {
        let published = if published.is_empty() { name } else { published };
        let document = model(&package, published).with_context(|| format!("the model of {published}"))?;
        let file = format!("{name}.json.gz");
        size += settle_model(&models.join(&file), &serde_json::to_vec(&document)?, check)?;
        let id = document["metadata"]["serviceId"].as_str().unwrap_or(name);
        table.push_str(&format!(
            "    Published {{ name: \"{name}\", id: \"{id}\", compressed: include_bytes!(\"models/{file}\") }},\n"
        ));
        wanted.insert(file);
    }
    table.push_str("]\n");
    for entry in std::fs::read_dir(&models)? {
        let entry = entry?;
        let known = entry.file_name().to_str().is_some_and(|name| wanted.contains(name));
        ensure!(known, "{} belongs to no service; remove it", entry.path().display());
    }
    println!("{} models, {size} bytes", SERVICES.len());
    super::settle(&root.join("crates/aws/data/models.rs"), &table, check)?;
    super::settle(&root.join("crates/aws/data/endpoints.txt"), &endpoints(folder.path())?, check)
}

/// Installs the package where nobody else sees it; its data folder.
fn install(folder: &Path) -> anyhow::Result<PathBuf> {
    let status = Command::new("python3")
        .args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", PACKAGE, "--target"])
        .arg(folder)
        .status()
        .context("cannot run python3")?;
    ensure!(status.success(), "pip cannot install {PACKAGE}: it ended with {status}");
    Ok(folder.join("botocore/data"))
}

/// The table of endpoints, by botocore's own reading of its rules.
fn endpoints(folder: &Path) -> anyhow::Result<String> {
    let mut command = Command::new("python3");
    command.args(["-c", include_str!("aws_endpoints.py")]).env("PYTHONPATH", folder);
    for (name, published) in SERVICES {
        command.args([if published.is_empty() { name } else { published }, name]);
    }
    let output = command.output().context("cannot run python3")?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?)
}

/// Writes the compressed model, or compares what is in it. Compressors may differ, so contents are compared.
fn settle_model(path: &Path, content: &[u8], check: bool) -> anyhow::Result<u64> {
    let current = std::fs::read(path).unwrap_or_default();
    let mut unpacked = Vec::new();
    // A file that cannot be read is like one that is not there.
    let readable = flate2::read::GzDecoder::new(current.as_slice()).read_to_end(&mut unpacked).is_ok();
    if readable && unpacked == content {
        return Ok(current.len() as u64);
    }
    if check {
        bail!("{} is stale; run the same command without --check", path.display());
    }
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    packed.write_all(content)?;
    let packed = packed.finish()?;
    std::fs::write(path, &packed).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(packed.len() as u64)
}

fn model(package: &Path, published: &str) -> anyhow::Result<Value> {
    let folder = newest(&package.join(published))?;
    let compressed = std::fs::read(folder.join("service-2.json.gz"))?;
    let mut document: Value = serde_json::from_reader(flate2::read::GzDecoder::new(compressed.as_slice()))?;
    merge(&mut document, &optional(&folder.join("service-2.sdk-extras.json"))?["merge"]);
    let mut pages = optional(&folder.join("paginators-1.json"))?;
    merge(&mut pages, &optional(&folder.join("paginators-1.sdk-extras.json"))?["merge"]);

    let mut metadata = kept(&document["metadata"], METADATA);
    metadata.insert("modelName".to_owned(), json!(published));
    let operations = each(&document["operations"], |operation| {
        let mut operation = kept(operation, OPERATION);
        for reference in ["input", "output"] {
            if let Some(value) = operation.get_mut(reference) {
                *value = Value::Object(kept(value, SHAPE));
            }
        }
        if let Some(Value::Array(errors)) = operation.get_mut("errors") {
            errors.iter_mut().for_each(|error| *error = Value::Object(kept(error, SHAPE)));
        }
        Value::Object(operation)
    });
    let shapes = each(&document["shapes"], shape);
    let pages = each(&pages["pagination"], |pages| Value::Object(kept(pages, PAGES)));
    let shapes = reachable(&operations, shapes)?;
    Ok(json!({ "metadata": metadata, "operations": operations, "shapes": shapes, "pagination": pages }))
}

/// The model of the newest version of the API.
fn newest(service: &Path) -> anyhow::Result<PathBuf> {
    let mut versions = Vec::new();
    for entry in std::fs::read_dir(service).with_context(|| format!("no {}", service.display()))? {
        versions.push(entry?.path());
    }
    versions.sort();
    versions.pop().with_context(|| format!("{} is empty", service.display()))
}

fn optional(path: &Path) -> anyhow::Result<Value> {
    if !path.exists() {
        return Ok(json!({}));
    }
    Ok(serde_json::from_slice(&std::fs::read(path)?)?)
}

/// Amendments that the SDKs share, laid over the model.
fn merge(into: &mut Value, from: &Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (key, value) in from {
                merge(into.entry(key.clone()).or_insert(Value::Null), value);
            }
        }
        (_, Value::Null) => {}
        (into, from) => *into = from.clone(),
    }
}

fn shape(shape: &Value) -> Value {
    let mut kept_shape = kept(shape, SHAPE);
    // That there are values is a fact worth keeping; which ones, AWS knows better than an old binary.
    if let Some(values) = kept_shape.get_mut("enum") {
        *values = Value::Bool(true);
    }
    for reference in ["member", "key", "value"] {
        if let Some(value) = kept_shape.get_mut(reference) {
            *value = Value::Object(kept(value, SHAPE));
        }
    }
    if let Some(members) = kept_shape.get_mut("members") {
        *members = Value::Object(each(members, |member| {
            let mut member = kept(member, SHAPE);
            member.remove("enum");
            Value::Object(member)
        }));
    }
    Value::Object(kept_shape)
}

fn kept(value: &Value, keys: &[&str]) -> Map<String, Value> {
    let entries = value.as_object().into_iter().flatten();
    let entries =
        entries.filter(|(key, value)| keys.contains(&key.as_str()) && **value != Value::Bool(false));
    entries.map(|(key, value)| (key.clone(), value.clone())).collect()
}

fn each(value: &Value, change: impl Fn(&Value) -> Value) -> Map<String, Value> {
    let entries = value.as_object().into_iter().flatten();
    entries.map(|(key, value)| (key.clone(), change(value))).collect()
}

/// The shapes that operations reach.
fn reachable(
    operations: &Map<String, Value>,
    shapes: Map<String, Value>,
) -> anyhow::Result<Map<String, Value>> {
    let mut open = Vec::new();
    for operation in operations.values() {
        let errors = operation["errors"].as_array().into_iter().flatten();
        open.extend([&operation["input"], &operation["output"]].into_iter().chain(errors));
    }
    let mut found = BTreeSet::new();
    while let Some(reference) = open.pop() {
        let Some(name) = reference["shape"].as_str() else { continue };
        if !found.insert(name) {
            continue;
        }
        let shape = shapes.get(name).with_context(|| format!("there is no shape {name}"))?;
        open.extend(shape["members"].as_object().into_iter().flat_map(Map::values));
        open.extend([&shape["member"], &shape["key"], &shape["value"]]);
    }
    let found: BTreeSet<String> = found.into_iter().map(str::to_owned).collect();
    Ok(shapes.into_iter().filter(|(name, _)| found.contains(name)).collect())
}

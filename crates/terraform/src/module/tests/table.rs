//! Expressions and what Terraform makes of them, as a table (`expressions.jsonl`: a line without a value is one that
//! Terraform refuses), and those few of which something else is made here (`expressions-known-differences.jsonl`, with
//! the reason).
//!
//! The results are Terraform's own. A new row needs its expression alone; `TERRAFORM=terraform cargo nextest run -p
//! terraform module::tests::table` asks the program that is named (1.11.4 was asked) for all of them and writes the table.

use std::collections::BTreeMap;
use std::process::Command;

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value as Json;
use serde_json::value::RawValue;

use super::values::evaluate;
use crate::module::functions::json;
use crate::value::Type;

const TABLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/module/tests/expressions.jsonl");
const DIFFERENCES: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/src/module/tests/expressions-known-differences.jsonl");

#[derive(Serialize, Deserialize)]
struct Row {
    expression: String,
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    ty: Option<Json>,
    /// As it is written, with all digits of its numbers; null is a value.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    value: Option<Box<RawValue>>,
    /// Why ours differs, in the table of those that do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    why: Option<String>,
}

fn present<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Box<RawValue>>, D::Error> {
    Box::<RawValue>::deserialize(from).map(Some)
}

#[derive(Deserialize)]
struct Output {
    #[serde(rename = "type")]
    ty: Json,
    value: Box<RawValue>,
}

#[derive(Deserialize)]
struct Found {
    ok: Box<RawValue>,
}

/// Each row is an output that tells a failure from a value.
fn asked(program: &str, rows: &mut [Row]) {
    let directory = tempfile::tempdir().unwrap();
    let output = |(at, row): (usize, &Row)| {
        format!("output \"r{at}\" {{\n  value = try({{ ok = {} }}, \"failed\")\n}}\n", row.expression)
    };
    let module: String = rows.iter().enumerate().map(output).collect();
    std::fs::write(directory.path().join("main.tf"), module).unwrap();
    let run = |arguments: &[&str]| {
        let mut command = Command::new(program);
        command.args(arguments).current_dir(directory.path()).env("CHECKPOINT_DISABLE", "1");
        let done = command.output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        done.stdout
    };
    run(&["apply", "-auto-approve", "-no-color"]);
    let mut outputs: BTreeMap<String, Output> = serde_json::from_slice(&run(&["output", "-json"])).unwrap();
    for (at, row) in rows.iter_mut().enumerate() {
        let output = outputs.remove(&format!("r{at}")).unwrap();
        let found: Option<Found> = serde_json::from_str(output.value.get()).ok();
        row.ty = found.as_ref().map(|_| output.ty[1]["ok"].clone());
        row.value = found.map(|found| in_one_line(&found.ok));
    }
}

/// The same text, digit by digit, without the space between its tokens.
fn in_one_line(value: &RawValue) -> Box<RawValue> {
    let (mut quoted, mut escaped) = (false, false);
    let kept = |letter: &char| {
        quoted ^= *letter == '"' && !escaped;
        escaped = *letter == '\\' && !escaped;
        quoted || !letter.is_ascii_whitespace()
    };
    RawValue::from_string(value.get().chars().filter(kept).collect()).unwrap()
}

/// The rows of a table, which is written anew if there is a program to ask.
fn rows(table: &str) -> Vec<Row> {
    let text = std::fs::read_to_string(table).unwrap();
    let read = |line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{line}: {error}"));
    let mut rows: Vec<Row> = text.lines().map(read).collect();
    if let Ok(program) = std::env::var("TERRAFORM") {
        asked(&program, &mut rows);
        let lines: Vec<String> = rows.iter().map(|row| serde_json::to_string(row).unwrap()).collect();
        std::fs::write(table, lines.join("\n") + "\n").unwrap();
    }
    rows
}

/// What is of any type in ours (null, and elements that are not there) may be of any in theirs.
fn fits(ours: &Type, theirs: &Type) -> bool {
    match (ours, theirs) {
        (Type::Dynamic, _) => true,
        (Type::List(a), Type::List(b)) | (Type::Set(a), Type::Set(b)) | (Type::Map(a), Type::Map(b)) => {
            fits(a, b)
        }
        (Type::Tuple(a), Type::Tuple(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| fits(a, b)),
        (Type::Object { attributes: a, .. }, Type::Object { attributes: b, .. }) => {
            a.len() == b.len() && a.iter().zip(b).all(|((an, a), (bn, b))| an == bn && fits(a, b))
        }
        (a, b) => a == b,
    }
}

/// What is made here instead, if it is something else.
fn difference(row: &Row) -> Option<String> {
    let ours = evaluate(row.expression.trim_end()).map(|term| (json::written(&term), term.own_type()));
    match (ours, &row.value) {
        (Err(_), None) => None,
        (Err(problem), Some(value)) => Some(format!("{problem}, and it is {value}")),
        (Ok((ours, _)), None) => Some(format!("{ours}, and it has no value")),
        (Ok((ours, own)), Some(value)) => {
            let theirs = json::read(value.get()).map(|term| json::written(&term)).unwrap_or_default();
            let of = Type::parse(row.ty.clone().unwrap_or_default().to_string().as_bytes()).unwrap();
            let same = ours == theirs && fits(&own, &of);
            (!same).then(|| format!("{ours} ({}), and it is {theirs} ({})", own.to_json(), of.to_json()))
        }
    }
}

#[test]
fn expressions_are_what_terraform_makes_of_them() {
    let rows = rows(TABLE);
    let wrong = rows.iter().filter_map(|row| Some(format!("{:?}: {}", row.expression, difference(row)?)));
    let wrong: Vec<String> = wrong.collect();
    assert!(rows.len() > 800, "the table is all there");
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), rows.len(), wrong.join("\n"));
}

/// So that the list of them stays true: one that is no difference any more belongs into the other table.
#[test]
fn known_differences_are_still_there() {
    for row in rows(DIFFERENCES) {
        assert!(row.why.is_some(), "{} has its reason", row.expression);
        assert!(difference(&row).is_some(), "{} is what Terraform makes of it", row.expression);
    }
}

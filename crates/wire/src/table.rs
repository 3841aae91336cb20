//! `meta.k8s.io` Tables and partial metadata: what kubectl prints, and what those ask for who need only metadata.
//!
//! The columns of built-in kinds are data elsewhere; here is how any column becomes a cell, the columns of custom
//! resources, and the shape around rows. The time is passed in: ages are text once they are in a table.

use std::borrow::Cow;

use jiff::Timestamp;
use objects::{Status, Value, meta, time};
use serde::Serialize;
use serde_json::{Map, json};

use crate::duration::human_duration;
use crate::jsonpath::{JsonPath, PathError};

/// What kubectl shows where there is no timestamp.
const UNKNOWN: &str = "<unknown>";

/// The head of a column.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Column {
    pub name: Cow<'static, str>,
    #[serde(rename = "type")]
    pub kind: Cow<'static, str>,
    pub format: Cow<'static, str>,
    pub description: Cow<'static, str>,
    /// Columns beyond 0 are for `-o wide`.
    pub priority: i32,
}

impl Column {
    pub const fn new(name: &'static str, kind: &'static str) -> Self {
        Column::with_format(name, kind, "")
    }

    pub const fn with_format(name: &'static str, kind: &'static str, format: &'static str) -> Self {
        Column {
            name: Cow::Borrowed(name),
            kind: Cow::Borrowed(kind),
            format: Cow::Borrowed(format),
            description: Cow::Borrowed(""),
            priority: 0,
        }
    }

    /// The name of the object; the format tells kubectl to put the kind before it.
    pub const fn name() -> Self {
        Column::with_format("Name", "string", "name")
    }

    /// The age of the object.
    pub const fn age() -> Self {
        Column::new("Age", "string")
    }

    /// Only with `-o wide`.
    #[must_use]
    pub const fn wide(mut self) -> Self {
        self.priority = 1;
        self
    }
}

/// How old an object is, or `<unknown>`.
pub fn age(object: &Value, now: Timestamp) -> String {
    since(meta::text(object, "creationTimestamp"), now)
}

/// How long ago a timestamp of an object was, or `<unknown>`.
pub fn since(timestamp: &str, now: Timestamp) -> String {
    match time::parse(timestamp) {
        Ok(then) => human_duration(now.as_second() - then.as_second()),
        Err(_) => UNKNOWN.to_owned(),
    }
}

/// A column of a custom resource: `additionalPrinterColumns` of its definition.
#[derive(Clone, Debug, PartialEq)]
pub struct CustomColumn {
    pub head: Column,
    path: JsonPath,
}

impl CustomColumn {
    /// From an entry of `additionalPrinterColumns`.
    pub fn from_value(entry: &Value) -> Result<Self, PathError> {
        let text = |field: &str| entry.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
        let priority = entry.get("priority").and_then(Value::as_i64).and_then(|n| i32::try_from(n).ok());
        let head = Column {
            name: text("name").into(),
            kind: text("type").into(),
            format: text("format").into(),
            description: text("description").into(),
            priority: priority.unwrap_or(0),
        };
        Ok(CustomColumn { head, path: JsonPath::parse(&text("jsonPath"))? })
    }

    /// The cell of an object; null where there is nothing of the column's type.
    pub fn cell(&self, object: &Value, now: Timestamp) -> Value {
        let Some(value) = self.path.find(object).into_iter().next().filter(|value| !value.is_null()) else {
            return Value::Null;
        };
        match (&*self.head.kind, value) {
            ("string", Value::String(_)) => value.clone(),
            // Whatever it is, as text: numbers and truths bare, the rest as JSON.
            ("string", value) => Value::String(value.to_string()),
            ("integer", Value::Number(number)) => match (number.as_i64(), number.as_f64()) {
                (Some(_), _) => value.clone(),
                (None, Some(float)) => json!(float as i64),
                _ => Value::Null,
            },
            ("number", Value::Number(_)) | ("boolean", Value::Bool(_)) => value.clone(),
            ("date", Value::String(timestamp)) => match time::parse(timestamp) {
                Ok(_) => Value::String(since(timestamp, now)),
                Err(_) => Value::String("<invalid>".to_owned()),
            },
            _ => Value::Null,
        }
    }
}

/// The columns of a custom resource: its name, then what its definition says, or else its age.
#[derive(Clone, Debug, PartialEq)]
pub struct CustomColumns {
    columns: Vec<CustomColumn>,
}

impl CustomColumns {
    pub fn new(columns: Vec<CustomColumn>) -> Self {
        CustomColumns { columns }
    }

    /// From `additionalPrinterColumns`; columns whose path does not parse are left out (validation refuses them).
    pub fn from_values(entries: &[Value]) -> Self {
        CustomColumns::new(entries.iter().filter_map(|entry| CustomColumn::from_value(entry).ok()).collect())
    }

    pub fn heads(&self) -> Vec<Column> {
        let mut heads = vec![Column::name()];
        match self.columns.as_slice() {
            [] => heads.push(Column { kind: Cow::Borrowed("date"), ..Column::age() }),
            columns => heads.extend(columns.iter().map(|column| column.head.clone())),
        }
        heads
    }

    pub fn cells(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        let mut cells = vec![json!(meta::name(object))];
        match self.columns.as_slice() {
            [] => cells.push(json!(age(object, now))),
            columns => cells.extend(columns.iter().map(|column| column.cell(object, now))),
        }
        cells
    }
}

/// How much of the object goes with its row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IncludeObject {
    None,
    #[default]
    Metadata,
    Object,
}

impl IncludeObject {
    /// From `?includeObject=`.
    pub fn parse(text: &str) -> Result<Self, Status> {
        match text {
            "" | "Metadata" => Ok(IncludeObject::Metadata),
            "None" => Ok(IncludeObject::None),
            "Object" => Ok(IncludeObject::Object),
            odd => Err(Status::bad_request(format!(
                "includeObject: Invalid value: {odd:?}: must be 'Metadata', 'Object', 'None', or empty"
            ))),
        }
    }
}

/// A row: the cells, one per column, and as much of the object as was asked for.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    pub cells: Vec<Value>,
    pub object: Value,
}

impl Row {
    pub fn new(cells: Vec<Value>, object: &Value, include: IncludeObject, version: &str) -> Self {
        let object = match include {
            IncludeObject::None => Value::Null,
            IncludeObject::Metadata => partial_metadata(object, version),
            IncludeObject::Object => object.clone(),
        };
        Row { cells, object }
    }
}

/// A whole table, ready to be serialized.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Table {
    kind: &'static str,
    api_version: String,
    /// The `metadata` of the list, or of the one object only its resource version.
    pub metadata: Value,
    /// In a watch, only the first event has them.
    pub column_definitions: Option<Vec<Column>>,
    pub rows: Vec<Row>,
}

impl Table {
    /// `version` is that of `meta.k8s.io` the client asked for.
    pub fn new(version: &str, metadata: Value, columns: Option<Vec<Column>>, rows: Vec<Row>) -> Self {
        let api_version = format!("meta.k8s.io/{version}");
        Table { kind: "Table", api_version, metadata, column_definitions: columns, rows }
    }

    /// The `metadata` of a table that holds one object.
    pub fn metadata_of(object: &Value) -> Value {
        json!({"resourceVersion": meta::resource_version(object)})
    }
}

/// A `PartialObjectMetadata` of an object.
pub fn partial_metadata(object: &Value, version: &str) -> Value {
    json!({
        "kind": "PartialObjectMetadata",
        "apiVersion": format!("meta.k8s.io/{version}"),
        "metadata": object.get("metadata").cloned().unwrap_or_else(|| Value::Object(Map::new())),
    })
}

/// A `PartialObjectMetadataList` of a list of objects.
pub fn partial_metadata_list<'v>(
    list_metadata: Value,
    items: impl Iterator<Item = &'v Value>,
    version: &str,
) -> Value {
    json!({
        "kind": "PartialObjectMetadataList",
        "apiVersion": format!("meta.k8s.io/{version}"),
        "metadata": list_metadata,
        "items": items.map(|item| partial_metadata(item, version)).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> Timestamp {
        time::parse("2024-01-02T00:00:00Z").unwrap()
    }

    fn object() -> Value {
        json!({
            "apiVersion": "example.com/v1",
            "kind": "Widget",
            "metadata": {"name": "w", "resourceVersion": "7", "creationTimestamp": "2024-01-01T00:00:00Z"},
            "spec": {"size": 3, "ratio": 2.5, "on": true, "tags": ["a"], "label": "x", "when": "2024-01-01T23:58:00Z", "bad": "soon", "nothing": null},
        })
    }

    #[track_caller]
    fn check(kind: &str, path: &str, expected: Value) {
        let column = CustomColumn::from_value(&json!({"name": "C", "type": kind, "jsonPath": path})).unwrap();
        assert_eq!(column.cell(&object(), now()), expected, "{kind} {path}");
    }

    #[test]
    fn cells_of_custom_columns() {
        check("string", ".spec.label", json!("x"));
        check("string", ".spec.size", json!("3"));
        check("string", ".spec.on", json!("true"));
        check("string", ".spec.tags", json!("[\"a\"]"));
        check("string", ".spec.gone", json!(null));
        check("string", ".spec.nothing", json!(null));
        check("integer", ".spec.size", json!(3));
        check("integer", ".spec.ratio", json!(2));
        check("integer", ".spec.label", json!(null));
        check("number", ".spec.ratio", json!(2.5));
        check("boolean", ".spec.on", json!(true));
        check("boolean", ".spec.label", json!(null));
        check("date", ".spec.when", json!("2m"));
        check("date", ".spec.bad", json!("<invalid>"));
        check("date", ".spec.gone", json!(null));
        check("date", ".metadata.creationTimestamp", json!("24h"));
    }

    #[test]
    fn the_default_columns_are_name_and_age() {
        let columns = CustomColumns::from_values(&[]);
        let names: Vec<String> = columns.heads().iter().map(|head| head.name.to_string()).collect();
        assert_eq!(names, ["Name", "Age"]);
        assert_eq!(columns.cells(&object(), now()), [json!("w"), json!("24h")]);
        let columns = CustomColumns::from_values(&[
            json!({"name": "Size", "type": "integer", "jsonPath": ".spec.size", "priority": 1}),
            json!({"name": "Odd", "type": "string", "jsonPath": ".spec["}),
        ]);
        assert_eq!(columns.heads().len(), 2);
        assert_eq!(columns.heads()[1].priority, 1);
        assert_eq!(columns.cells(&object(), now()), [json!("w"), json!(3)]);
        assert_eq!(age(&json!({}), now()), "<unknown>");
    }

    #[test]
    fn a_table_over_the_wire() {
        let object = object();
        let columns = CustomColumns::from_values(&[]);
        let row = |include| Row::new(columns.cells(&object, now()), &object, include, "v1");
        let table = Table::new(
            "v1",
            Table::metadata_of(&object),
            Some(columns.heads()),
            vec![row(IncludeObject::Metadata)],
        );
        assert_eq!(
            serde_json::to_value(&table).unwrap(),
            json!({
                "kind": "Table",
                "apiVersion": "meta.k8s.io/v1",
                "metadata": {"resourceVersion": "7"},
                "columnDefinitions": [
                    {"name": "Name", "type": "string", "format": "name", "description": "", "priority": 0},
                    {"name": "Age", "type": "date", "format": "", "description": "", "priority": 0},
                ],
                "rows": [{
                    "cells": ["w", "24h"],
                    "object": {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": object["metadata"]},
                }],
            })
        );
        assert_eq!(row(IncludeObject::None).object, Value::Null);
        assert_eq!(row(IncludeObject::Object).object, object);
        assert_eq!(IncludeObject::parse("Odd").unwrap_err().code, 400);
        assert_eq!(IncludeObject::parse(""), Ok(IncludeObject::Metadata));
        let list = partial_metadata_list(json!({"resourceVersion": "9"}), [&object].into_iter(), "v1");
        assert_eq!(list["items"][0]["metadata"]["name"], "w");
        assert_eq!(list["kind"], "PartialObjectMetadataList");
    }
}

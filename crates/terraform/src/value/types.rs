//! Terraform's types, and their JSON form (`"string"`, `["list","string"]`, `["object",{…}]`).

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value as Json, json};

use super::DEEPEST;

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Type {
    String,
    Bool,
    Number,
    /// Any type; the value brings its own.
    Dynamic,
    List(Box<Type>),
    Set(Box<Type>),
    Map(Box<Type>),
    Tuple(Vec<Type>),
    Object {
        attributes: BTreeMap<String, Type>,
        /// Only in what a function takes: attributes that may be left out.
        optional: BTreeSet<String>,
    },
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0} is not a Terraform type")]
pub struct TypeError(String);

impl TypeError {
    fn of(json: &Json) -> TypeError {
        let mut text = json.to_string();
        if text.len() > 80 {
            text = text.chars().take(80).collect();
            text.push('…');
        }
        TypeError(text)
    }
}

impl Type {
    pub fn object(attributes: impl IntoIterator<Item = (String, Type)>) -> Type {
        Type::Object { attributes: attributes.into_iter().collect(), optional: BTreeSet::new() }
    }

    pub fn parse(bytes: &[u8]) -> Result<Type, TypeError> {
        let json: Json = serde_json::from_slice(bytes)
            .map_err(|_| TypeError(String::from_utf8_lossy(&bytes[..bytes.len().min(80)]).into_owned()))?;
        Type::from_json(&json, DEEPEST)
    }

    fn from_json(json: &Json, depth: usize) -> Result<Type, TypeError> {
        let wrong = || TypeError::of(json);
        let depth = depth.checked_sub(1).ok_or_else(wrong)?;
        if let Json::String(name) = json {
            return match name.as_str() {
                "string" => Ok(Type::String),
                "bool" => Ok(Type::Bool),
                "number" => Ok(Type::Number),
                "dynamic" => Ok(Type::Dynamic),
                _ => Err(wrong()),
            };
        }
        let Some([Json::String(constructor), argument, more @ ..]) = json.as_array().map(Vec::as_slice)
        else {
            return Err(wrong());
        };
        let inner = || Type::from_json(argument, depth).map(Box::new);
        match (constructor.as_str(), argument, more) {
            ("list", _, []) => Ok(Type::List(inner()?)),
            ("set", _, []) => Ok(Type::Set(inner()?)),
            ("map", _, []) => Ok(Type::Map(inner()?)),
            ("tuple", Json::Array(elements), []) => {
                let elements = elements.iter().map(|element| Type::from_json(element, depth));
                Ok(Type::Tuple(elements.collect::<Result<_, _>>()?))
            }
            ("object", Json::Object(attributes), more) => {
                let optional = match more {
                    [] => BTreeSet::new(),
                    [Json::Array(names)] => names
                        .iter()
                        .map(|name| name.as_str().map(str::to_owned).ok_or_else(wrong))
                        .collect::<Result<_, _>>()?,
                    _ => return Err(wrong()),
                };
                let attributes = attributes
                    .iter()
                    .map(|(name, ty)| Ok((name.clone(), Type::from_json(ty, depth)?)))
                    .collect::<Result<_, TypeError>>()?;
                Ok(Type::Object { attributes, optional })
            }
            _ => Err(wrong()),
        }
    }

    pub fn to_json(&self) -> Json {
        match self {
            Type::String => json!("string"),
            Type::Bool => json!("bool"),
            Type::Number => json!("number"),
            Type::Dynamic => json!("dynamic"),
            Type::List(element) => json!(["list", element.to_json()]),
            Type::Set(element) => json!(["set", element.to_json()]),
            Type::Map(element) => json!(["map", element.to_json()]),
            Type::Tuple(elements) => json!(["tuple", elements.iter().map(Type::to_json).collect::<Vec<_>>()]),
            Type::Object { attributes, optional } => {
                let attributes: serde_json::Map<_, _> =
                    attributes.iter().map(|(name, ty)| (name.clone(), ty.to_json())).collect();
                if optional.is_empty() {
                    json!(["object", attributes])
                } else {
                    json!(["object", attributes, optional])
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms() {
        for text in [
            r#""string""#,
            r#""dynamic""#,
            r#"["list","number"]"#,
            r#"["set",["map","bool"]]"#,
            r#"["tuple",["string",["list","dynamic"]]]"#,
            r#"["object",{"a":"string","b":["object",{}]}]"#,
            r#"["object",{"a":"string"},["a"]]"#,
        ] {
            assert_eq!(Type::parse(text.as_bytes()).unwrap().to_json().to_string(), text);
        }
    }

    #[test]
    fn not_types() {
        let deep = format!("{}\"string\"{}", r#"["list","#.repeat(120), "]".repeat(120));
        for text in [
            "",
            "null",
            r#""text""#,
            "[]",
            r#"["list"]"#,
            r#"["list","string","x"]"#,
            r#"["object",3]"#,
            &deep,
        ] {
            assert!(Type::parse(text.as_bytes()).is_err(), "{text}");
        }
    }
}

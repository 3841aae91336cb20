//! State files of Terraform, version 4.
//!
//! Attributes are carried as the text they came as: their numbers must not pass through anything that rounds.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// The only version that current programs write.
const VERSION: u64 = 4;
/// The program that a reader may take this for: one that any later one understands.
const WRITTEN_AS: &str = "1.5.0";

#[derive(thiserror::Error, Debug)]
pub enum FileError {
    #[error("it is not a state file: {0}")]
    Unreadable(#[from] serde_json::Error),
    #[error("it has version {0}; this reads version {VERSION}")]
    Version(u64),
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct StateFile {
    version: u64,
    #[serde(default)]
    terraform_version: String,
    #[serde(default)]
    pub serial: u64,
    #[serde(default)]
    pub lineage: String,
    #[serde(default)]
    outputs: serde_json::Value,
    #[serde(default)]
    pub resources: Vec<Resource>,
    #[serde(default)]
    check_results: Option<serde_json::Value>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Resource {
    /// Of a module that was called; empty in the root.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub module: String,
    /// `managed` or `data`.
    pub mode: String,
    pub r#type: String,
    pub name: String,
    /// `provider["registry.terraform.io/hashicorp/random"]`
    pub provider: String,
    pub instances: Vec<Instance>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Instance {
    /// Not in state files, where the resource says it: of one that is to be taken over by an object of another type.
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    pub type_name: Option<String>,
    /// A number or a text, of `count` and `for_each`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub index_key: Option<serde_json::Value>,
    /// `tainted`
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    /// Set for what a replacement left behind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deposed: Option<String>,
    #[serde(default)]
    pub schema_version: i64,
    #[serde(default)]
    pub attributes: Option<Box<RawValue>>,
    #[serde(default)]
    pub sensitive_attributes: serde_json::Value,
    /// Base64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub private: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity_schema_version: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity: Option<Box<RawValue>>,
}

impl StateFile {
    pub fn new(serial: u64, lineage: &str, resources: Vec<Resource>) -> StateFile {
        StateFile {
            version: VERSION,
            terraform_version: WRITTEN_AS.to_owned(),
            serial,
            lineage: lineage.to_owned(),
            outputs: serde_json::json!({}),
            resources,
            check_results: None,
        }
    }

    pub fn parse(bytes: &[u8]) -> Result<StateFile, FileError> {
        #[derive(Deserialize)]
        struct Head {
            version: u64,
        }
        // The version first: another one has another form.
        let Head { version } = serde_json::from_slice(bytes)?;
        if version != VERSION {
            return Err(FileError::Version(version));
        }
        Ok(serde_json::from_slice(bytes)?)
    }

    pub fn to_bytes(&self) -> Result<Vec<u8>, FileError> {
        let mut bytes = serde_json::to_vec_pretty(self)?;
        bytes.push(b'\n');
        Ok(bytes)
    }
}

/// The name of an object as a name of Terraform's: letters, digits, `_` and `-`, not beginning with a digit.
pub fn name_of(object: &str) -> String {
    let mut name = object.replace('.', "_");
    if name.starts_with(|first: char| first.is_ascii_digit()) {
        name.insert(0, '_');
    }
    name
}

/// The address of a provider in a state file.
pub fn provider_of(address: &str) -> String {
    format!("provider[{address:?}]")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stay_as_they_are() {
        let text = br#"{"version": 4, "terraform_version": "1.9.5", "serial": 3, "lineage": "l", "outputs": {}, "resources": [
            {"mode": "managed", "type": "t_x", "name": "a", "provider": "provider[\"h/n/t\"]", "instances": [
                {"schema_version": 1, "attributes": {"n": 123456789012345678901234567890.5}, "sensitive_attributes": [],
                 "private": "bm90ZQ==", "index_key": "k"}]}], "check_results": null}"#;
        let file = StateFile::parse(text).unwrap();
        let instance = &file.resources[0].instances[0];
        assert_eq!(instance.attributes.as_ref().unwrap().get(), r#"{"n": 123456789012345678901234567890.5}"#);
        let again = StateFile::parse(&file.to_bytes().unwrap()).unwrap();
        let attributes = again.resources[0].instances[0].attributes.clone().unwrap();
        assert!(attributes.get().contains("123456789012345678901234567890.5"));
        assert_eq!((again.serial, again.lineage.as_str()), (3, "l"));
    }

    #[test]
    fn other_files_are_refused() {
        for (text, says) in [("[]", "not a state file"), (r#"{"version": 3}"#, "has version 3")] {
            assert!(StateFile::parse(text.as_bytes()).unwrap_err().to_string().contains(says), "{text}");
        }
    }

    #[test]
    fn names() {
        for (object, name) in [("web", "web"), ("web-1", "web-1"), ("1.web", "_1_web")] {
            assert_eq!(name_of(object), name);
        }
        assert_eq!(provider_of("h/n/t"), r#"provider["h/n/t"]"#);
    }
}

//! Keys to the shelf, which are lent: `shelf_key` is ephemeral, and there while its file is.

use std::time::{Duration, SystemTime};

use prost::bytes::Bytes;
use terraform::protocol::messages as wire;
use terraform::value::{Type, Value};

use super::Shelf;
use super::serve::Reply;
use super::thing::{Attributes, dynamic, error, reply, types, value};

pub const NAME: &str = "shelf_key";
pub const KEY: Attributes = &[
    ("label", r#""string""#, "r"),
    // In seconds, until it has to be renewed.
    ("lasts", r#""number""#, "o"),
    ("key", r#""string""#, "cs"),
    ("owner", r#""string""#, "c"),
];

fn ty() -> Type {
    Type::object(types(KEY))
}

/// By what the provider knows it again.
fn file(shelf: &Shelf, private: &Option<Bytes>) -> std::path::PathBuf {
    let id = String::from_utf8_lossy(private.as_deref().unwrap_or_default()).into_owned();
    shelf.directory.get().expect("configured first").join(format!("{id}.key"))
}

fn renewal(lasts: f64) -> Option<wire::Timestamp> {
    let at = SystemTime::now() + Duration::from_secs_f64(lasts);
    let since = at.duration_since(SystemTime::UNIX_EPOCH).unwrap();
    Some(wire::Timestamp { seconds: since.as_secs() as i64, nanos: since.subsec_nanos() as i32 })
}

pub fn validate(request: &wire::ValidateRequest) -> Reply {
    let config = value(&request.config, &ty());
    let wrong = config.field("label").as_str() == Some("");
    let diagnostics = if wrong { vec![error("a key needs a label", &["label"])] } else { vec![] };
    reply(&wire::DiagnosticsResponse { diagnostics })
}

pub fn open(shelf: &Shelf, request: &wire::ValidateRequest) -> Reply {
    let Value::Fields(mut fields) = value(&request.config, &ty()) else { panic!("a key has fields") };
    let label = fields["label"].as_str().unwrap_or_default().to_owned();
    if label == "lost" {
        let diagnostics = vec![error("this key is lost", &["label"])];
        return reply(&wire::OpenEphemeralResponse { diagnostics, ..Default::default() });
    }
    let id = format!("{label}-{:08x}", rand::random::<u32>());
    let lasts = match &fields["lasts"] {
        Value::Number(number) => Some(number.nearest_f64()),
        _ => None,
    };
    let private = Some(Bytes::from(format!("{id} {}", lasts.unwrap_or_default()).replace(' ', "+")));
    std::fs::write(file(shelf, &private), "").expect("a place on the shelf");
    fields.insert("key".into(), Value::string(format!("key of {id}")));
    fields.insert("owner".into(), Value::string("the shelf"));
    reply(&wire::OpenEphemeralResponse {
        result: dynamic(&Value::Fields(fields), &ty()),
        renew_at: lasts.and_then(renewal),
        private,
        ..Default::default()
    })
}

/// Notes that it was.
pub fn renew(shelf: &Shelf, request: &wire::EphemeralRequest) -> Reply {
    let text = String::from_utf8_lossy(request.private.as_deref().unwrap_or_default()).into_owned();
    let lasts = text.rsplit('+').next().and_then(|text| text.parse().ok()).unwrap_or_default();
    std::fs::write(file(shelf, &request.private), "renewed").expect("a place on the shelf");
    reply(&wire::RenewEphemeralResponse { renew_at: renewal(lasts), ..Default::default() })
}

pub fn close(shelf: &Shelf, request: &wire::EphemeralRequest) -> Reply {
    let gone = std::fs::remove_file(file(shelf, &request.private)).is_err();
    let diagnostics = if gone { vec![error("there is no such key", &[])] } else { vec![] };
    reply(&wire::DiagnosticsResponse { diagnostics })
}

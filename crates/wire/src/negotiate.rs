//! What a client accepts and what it sends: media types to enums, and 406 and 415 where nothing fits.
//!
//! Mirrors the negotiation of upstream's API server: alternatives are tried by quality, then from the specific to the
//! wildcard, and one whose parameters the endpoint cannot serve is passed over.

use objects::{Reason, Status};

/// How bytes are encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    Json,
    Yaml,
    Protobuf,
}

impl Format {
    pub fn media_type(self) -> &'static str {
        match self {
            Format::Json => "application/json",
            Format::Yaml => "application/yaml",
            Format::Protobuf => "application/vnd.kubernetes.protobuf",
        }
    }

    fn named(kind: &str, subkind: &str) -> Option<Format> {
        match (kind, subkind) {
            ("application", "json") => Some(Format::Json),
            ("application", "yaml") => Some(Format::Yaml),
            ("application", "vnd.kubernetes.protobuf") => Some(Format::Protobuf),
            _ => None,
        }
    }
}

/// What an object is turned into before it is encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Shape {
    /// As it is.
    #[default]
    Object,
    /// `meta.k8s.io` Table
    Table,
    /// `meta.k8s.io` PartialObjectMetadata
    PartialMetadata,
    /// `meta.k8s.io` PartialObjectMetadataList
    PartialMetadataList,
    /// `apidiscovery.k8s.io` APIGroupDiscoveryList
    Discovery,
}

/// The conversions a client may ask for: `as`, `g`, and the versions we serve, newest first.
const CONVERSIONS: &[(&str, &str, &[&str], Shape)] = &[
    ("Table", "meta.k8s.io", &["v1", "v1beta1"], Shape::Table),
    ("PartialObjectMetadata", "meta.k8s.io", &["v1", "v1beta1"], Shape::PartialMetadata),
    ("PartialObjectMetadataList", "meta.k8s.io", &["v1", "v1beta1"], Shape::PartialMetadataList),
    ("APIGroupDiscoveryList", "apidiscovery.k8s.io", &["v2", "v2beta1"], Shape::Discovery),
];

/// Whether an endpoint answers with streams of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Streams {
    Never,
    /// `stream=watch` may be asked for, and changes nothing.
    Allowed,
    /// A watch: only what can be cut into events.
    Only,
}

/// What one endpoint can answer with.
#[derive(Clone, Copy, Debug)]
pub struct Endpoint<'a> {
    /// In the order in which a 406 names them; the first serves clients that do not care.
    pub formats: &'a [Format],
    pub shapes: &'a [Shape],
    /// Those of the shapes that there are protobuf messages for. Tables never have one.
    pub protobuf: &'a [Shape],
    pub streams: Streams,
}

impl Endpoint<'_> {
    /// One object: get, create, update, patch, delete.
    pub const OBJECT: Endpoint<'static> = Endpoint {
        formats: &[Format::Json, Format::Yaml],
        shapes: &[Shape::Object, Shape::Table, Shape::PartialMetadata],
        protobuf: &[],
        streams: Streams::Allowed,
    };
    /// A list.
    pub const LIST: Endpoint<'static> = Endpoint {
        formats: &[Format::Json, Format::Yaml],
        shapes: &[Shape::Object, Shape::Table, Shape::PartialMetadata, Shape::PartialMetadataList],
        protobuf: &[],
        streams: Streams::Allowed,
    };
    /// A watch. YAML has no stream of documents here, as upstream.
    pub const WATCH: Endpoint<'static> =
        Endpoint { formats: &[Format::Json], streams: Streams::Only, ..Endpoint::LIST };
    /// `/api` and `/apis`.
    pub const DISCOVERY: Endpoint<'static> = Endpoint {
        formats: &[Format::Json, Format::Yaml],
        shapes: &[Shape::Object, Shape::Discovery],
        protobuf: &[],
        streams: Streams::Never,
    };
    /// Everything else: no conversions.
    pub const PLAIN: Endpoint<'static> = Endpoint {
        formats: &[Format::Json, Format::Yaml],
        shapes: &[Shape::Object],
        protobuf: &[],
        streams: Streams::Never,
    };

    /// The same for a resource in protobuf as well: whole objects where their kind has a message, and the metadata of
    /// any.
    pub fn with_protobuf(self, has_message: bool) -> Self {
        const METADATA: &[Shape] = &[Shape::PartialMetadata, Shape::PartialMetadataList];
        const ALL: &[Shape] = &[Shape::Object, Shape::PartialMetadata, Shape::PartialMetadataList];
        Endpoint { protobuf: if has_message { ALL } else { METADATA }, ..self }
    }

    /// Protobuf comes last: those who do not care get JSON.
    fn formats(&self) -> impl Iterator<Item = Format> {
        let protobuf = (!self.protobuf.is_empty()).then_some(Format::Protobuf);
        self.formats.iter().copied().chain(protobuf)
    }

    fn not_acceptable(&self) -> Status {
        let suffix = if self.streams == Streams::Only { ";stream=watch" } else { "" };
        let accepted: Vec<String> =
            self.formats().map(|format| format!("{}{suffix}", format.media_type())).collect();
        let message = format!("only the following media types are accepted: {}", accepted.join(", "));
        Status::new(Reason::NotAcceptable, message)
    }
}

/// The answer the client will understand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Accepted {
    pub format: Format,
    pub shape: Shape,
    /// The version of the shape's group: `v1` of Table, `v2` of discovery. Empty for [`Shape::Object`].
    pub version: &'static str,
    /// `stream=watch`
    pub stream: bool,
    /// `pretty=1`
    pub pretty: bool,
}

impl Accepted {
    fn plain(format: Format) -> Self {
        Accepted { format, shape: Shape::Object, version: "", stream: false, pretty: false }
    }

    /// The `Content-Type` of the answer, parameters included: clients find the conversion there.
    pub fn content_type(&self) -> String {
        let mut text = self.format.media_type().to_owned();
        // Only discovery repeats its conversion, and kubectl reads it from there.
        if self.shape == Shape::Discovery
            && let Some((kind, group, ..)) = CONVERSIONS.iter().find(|(.., shape)| *shape == self.shape)
        {
            text.push_str(&format!(";g={group};v={};as={kind}", self.version));
        }
        text
    }
}

/// One alternative of an `Accept` header.
struct Clause<'a> {
    kind: &'a str,
    subkind: &'a str,
    quality: f32,
    parameters: Vec<(&'a str, &'a str)>,
}

impl<'a> Clause<'a> {
    fn parse(text: &'a str) -> Option<Self> {
        let mut parts = text.split(';').map(str::trim);
        let media_type = parts.next()?;
        let (kind, subkind) = match media_type.split_once('/') {
            Some((kind, subkind)) => (kind.trim(), subkind.trim()),
            // As lenient as upstream with what old libraries send.
            None if media_type == "*" => ("*", "*"),
            None => return None,
        };
        let mut clause = Clause { kind, subkind, quality: 1.0, parameters: Vec::new() };
        for (name, value) in parts.filter_map(|part| part.split_once('=')) {
            let value = value.trim().trim_matches('"');
            match name.trim() {
                "q" => clause.quality = value.parse().unwrap_or(1.0),
                name => clause.parameters.push((name, value)),
            }
        }
        Some(clause)
    }

    /// How specific it is; wildcards come last among equals.
    fn wildcards(&self) -> u8 {
        u8::from(self.kind == "*") + u8::from(self.subkind == "*")
    }

    fn admits(&self, format: Format) -> bool {
        match (self.kind, self.subkind) {
            ("*" | "application", "*") => true,
            (kind, subkind) => Format::named(kind, subkind) == Some(format),
        }
    }

    /// What its parameters ask for, where the endpoint can give it.
    fn options(&self, format: Format, endpoint: &Endpoint<'_>) -> Option<Accepted> {
        let mut accepted = Accepted::plain(format);
        let (mut kind, mut group, mut version) = (None, "", "");
        for (name, value) in &self.parameters {
            match *name {
                "as" => kind = Some(*value),
                "g" => group = value,
                "v" => version = value,
                "stream" if value.is_empty() => {}
                "stream" if *value == "watch" && endpoint.streams != Streams::Never => accepted.stream = true,
                "stream" => return None,
                "pretty" => accepted.pretty = *value == "1",
                // `charset` and whatever else means nothing here.
                _ => {}
            }
        }
        match kind {
            None if group.is_empty() && version.is_empty() => {}
            None => return None,
            Some(kind) => {
                let (.., versions, shape) =
                    CONVERSIONS.iter().find(|(name, of, ..)| *name == kind && *of == group)?;
                accepted.shape = *shape;
                accepted.version = versions.iter().find(|served| **served == version)?;
            }
        }
        let encodable = format != Format::Protobuf || endpoint.protobuf.contains(&accepted.shape);
        (encodable && endpoint.shapes.contains(&accepted.shape)).then_some(accepted)
    }
}

/// Chooses the answer to a request by its `Accept` header. An absent or empty one takes what there is.
pub fn accept(header: Option<&str>, endpoint: &Endpoint<'_>) -> Result<Accepted, Status> {
    let header = header.map(str::trim).unwrap_or_default();
    if header.is_empty() {
        return endpoint
            .formats
            .first()
            .copied()
            .map(Accepted::plain)
            .ok_or_else(|| endpoint.not_acceptable());
    }
    // More alternatives than any client sends; a header is at most some kilobytes anyway.
    let mut clauses: Vec<Clause<'_>> = header.split(',').take(64).filter_map(Clause::parse).collect();
    clauses.retain(|clause| clause.quality > 0.0);
    clauses.sort_by(|a, b| b.quality.total_cmp(&a.quality).then(a.wildcards().cmp(&b.wildcards())));
    clauses
        .iter()
        .flat_map(|clause| {
            let fitting = endpoint.formats().filter(|format| clause.admits(*format));
            fitting.filter_map(|format| clause.options(format, endpoint))
        })
        .next()
        .ok_or_else(|| endpoint.not_acceptable())
}

/// `application/json; charset=utf-8` without its parameters, lowercase.
fn essence(header: &str) -> String {
    header.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

fn unsupported(accepted: &[&str]) -> Status {
    let list = accepted.join(", ");
    let message =
        format!("the body of the request was in an unknown format - accepted media types include: {list}");
    Status::new(Reason::UnsupportedMediaType, message)
}

/// How a request's body is encoded, by its `Content-Type`; the first of `formats` where it has none.
pub fn body(content_type: Option<&str>, formats: &[Format]) -> Result<Format, Status> {
    let wanted = content_type.map(essence).unwrap_or_default();
    let found = match wanted.as_str() {
        "" => formats.first(),
        wanted => formats.iter().find(|format| format.media_type() == wanted),
    };
    let names: Vec<&str> = formats.iter().map(|format| format.media_type()).collect();
    found.copied().ok_or_else(|| unsupported(&names))
}

/// The kinds of patches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PatchType {
    Json,
    Merge,
    Strategic,
    /// Server-side apply; the body is YAML, of which JSON is a part.
    Apply,
}

impl PatchType {
    /// All, in the order in which a 415 names them.
    pub const ALL: [PatchType; 4] =
        [PatchType::Json, PatchType::Merge, PatchType::Strategic, PatchType::Apply];
    /// Custom resources have no merge keys, so strategic patches mean nothing to them.
    pub const CUSTOM: [PatchType; 3] = [PatchType::Json, PatchType::Merge, PatchType::Apply];

    pub fn media_type(self) -> &'static str {
        match self {
            PatchType::Json => "application/json-patch+json",
            PatchType::Merge => "application/merge-patch+json",
            PatchType::Strategic => "application/strategic-merge-patch+json",
            PatchType::Apply => "application/apply-patch+yaml",
        }
    }
}

/// Which patch a request's body is, by its `Content-Type`.
pub fn patch(content_type: Option<&str>, allowed: &[PatchType]) -> Result<PatchType, Status> {
    let wanted = content_type.map(essence).unwrap_or_default();
    let names: Vec<&str> = allowed.iter().map(|kind| kind.media_type()).collect();
    allowed.iter().copied().find(|kind| kind.media_type() == wanted).ok_or_else(|| unsupported(&names))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(header: &str, endpoint: &Endpoint<'_>, format: Format, shape: Shape, version: &str) {
        let accepted = accept(Some(header), endpoint).unwrap();
        assert_eq!((accepted.format, accepted.shape, accepted.version), (format, shape, version), "{header}");
    }

    #[test]
    fn what_clients_send() {
        use Format::*;
        let (object, list) = (&Endpoint::OBJECT, &Endpoint::LIST);
        check("", object, Json, Shape::Object, "");
        check("*/*", object, Json, Shape::Object, "");
        check("application/*", object, Json, Shape::Object, "");
        check("application/json", object, Json, Shape::Object, "");
        check("application/json;charset=utf-8", object, Json, Shape::Object, "");
        check("application/yaml", object, Yaml, Shape::Object, "");
        check("application/json;q=0.5, application/yaml", object, Yaml, Shape::Object, "");
        check("*/*, application/yaml", object, Yaml, Shape::Object, "");
        check("application/vnd.kubernetes.protobuf,application/json", object, Json, Shape::Object, "");
        // the same where there are messages: of built-in kinds, and of the metadata of custom ones
        let (built_in, custom) = (&object.with_protobuf(true), &object.with_protobuf(false));
        check("application/vnd.kubernetes.protobuf,application/json", built_in, Protobuf, Shape::Object, "");
        check("application/vnd.kubernetes.protobuf,application/json", custom, Json, Shape::Object, "");
        check("application/json,application/vnd.kubernetes.protobuf", built_in, Json, Shape::Object, "");
        check("*/*", built_in, Json, Shape::Object, "");
        let table = "application/vnd.kubernetes.protobuf;as=Table;v=v1;g=meta.k8s.io,application/json";
        check(table, built_in, Json, Shape::Object, "");
        let partial = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
        check(partial, custom, Protobuf, Shape::PartialMetadata, "v1");
        let partial_list =
            "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
        check(partial_list, &list.with_protobuf(false), Protobuf, Shape::PartialMetadataList, "v1");
        assert!(accept(Some(partial_list), built_in).is_err());
        // kubectl get
        let table = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json";
        check(table, list, Json, Shape::Table, "v1");
        check(table, &Endpoint::PLAIN, Json, Shape::Object, "");
        check("application/json;as=Table;g=meta.k8s.io;v=v1beta1", list, Json, Shape::Table, "v1beta1");
        // the metadata client, then the garbage collector
        let metadata = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";
        check(metadata, list, Json, Shape::PartialMetadataList, "v1");
        check(
            "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
            object,
            Json,
            Shape::PartialMetadata,
            "v1",
        );
        // kubectl api-resources
        let discovery = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json";
        check(discovery, &Endpoint::DISCOVERY, Json, Shape::Discovery, "v2");
        assert_eq!(
            accept(Some(discovery), &Endpoint::DISCOVERY).unwrap().content_type(),
            "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
        );
        assert!(accept(Some("application/json;stream=watch"), list).unwrap().stream);
    }

    #[test]
    fn refusals() {
        for header in [
            "text/html",
            "application/vnd.kubernetes.protobuf",
            "application/json;q=0",
            "application/json;as=Table;v=v2;g=meta.k8s.io",
            "application/json;as=Table;v=v1;g=other",
            "application/json;v=v1",
            "application/json;stream=exec",
            ";;,/,=",
        ] {
            let status = accept(Some(header), &Endpoint::OBJECT).expect_err(header);
            assert_eq!(status.code, 406);
            assert_eq!(
                status.message,
                "only the following media types are accepted: application/json, application/yaml"
            );
        }
        let status = accept(Some("application/yaml"), &Endpoint::WATCH).unwrap_err();
        assert_eq!(
            status.message,
            "only the following media types are accepted: application/json;stream=watch"
        );
        assert!(accept(Some("application/yaml, */*"), &Endpoint::WATCH).is_ok());
        let table = "application/json;as=Table;v=v1;g=meta.k8s.io";
        assert_eq!(accept(Some(table), &Endpoint::PLAIN).expect_err(table).code, 406);
    }

    proptest::proptest! {
        #[test]
        fn no_header_makes_it_panic(header in "[a-z*/;,=. \"q0-9]{0,60}|.{0,40}") {
            let _ = accept(Some(&header), &Endpoint::LIST);
            let _ = body(Some(&header), &[Format::Json]);
        }
    }

    #[test]
    fn bodies_and_patches() {
        let formats = [Format::Json, Format::Yaml];
        assert_eq!(body(None, &formats), Ok(Format::Json));
        assert_eq!(body(Some("Application/YAML; charset=utf-8"), &formats), Ok(Format::Yaml));
        let refused = body(Some("text/plain"), &formats).unwrap_err();
        assert_eq!(refused.code, 415);
        assert_eq!(
            refused.message,
            "the body of the request was in an unknown format - accepted media types include: application/json, application/yaml"
        );
        assert_eq!(patch(Some("application/apply-patch+yaml"), &PatchType::ALL), Ok(PatchType::Apply));
        let refused = patch(Some("application/strategic-merge-patch+json"), &PatchType::CUSTOM).unwrap_err();
        assert!(refused.message.ends_with(
            "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml"
        ));
    }
}

//! A Swagger 2.0 document as the protobuf that kubectl before 1.27 asks `/openapi/v2` for.
//!
//! The JSON document is the source; this is only another encoding of it. Extensions (`x-kubernetes-...`) travel as
//! YAML text, which is where kubectl reads group, version and kind and the merge keys from.

mod messages;

use objects::Value;
use prost::Message as _;
use serde_json::Map;

use crate::yaml;
use messages::*;

/// What is asked for in `Accept`.
pub const MEDIA_TYPE: &str = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";

/// Encodes a Swagger 2.0 document. Whatever has no place in the messages is left out.
pub fn encode(document: &Value) -> Vec<u8> {
    read_document(Fields::of(document)).encode_to_vec()
}

/// An object of the document, read leniently: what is absent or of another type is empty.
#[derive(Clone, Copy)]
struct Fields<'a>(Option<&'a Map<String, Value>>);

impl<'a> Fields<'a> {
    fn of(value: &'a Value) -> Self {
        Fields(value.as_object())
    }

    fn get(self, name: &str) -> Option<&'a Value> {
        self.0.and_then(|fields| fields.get(name))
    }

    fn object(self, name: &str) -> Option<Fields<'a>> {
        self.get(name).and_then(Value::as_object).map(|fields| Fields(Some(fields)))
    }

    fn list(self, name: &str) -> &'a [Value] {
        self.get(name).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
    }

    fn text(self, name: &str) -> String {
        self.get(name).and_then(Value::as_str).unwrap_or_default().to_owned()
    }

    fn texts(self, name: &str) -> Vec<String> {
        self.list(name).iter().filter_map(Value::as_str).map(str::to_owned).collect()
    }

    fn truth(self, name: &str) -> bool {
        self.get(name).and_then(Value::as_bool).unwrap_or(false)
    }

    fn integer(self, name: &str) -> i64 {
        self.get(name).and_then(Value::as_i64).unwrap_or(0)
    }

    fn number(self, name: &str) -> f64 {
        self.get(name).and_then(Value::as_f64).unwrap_or(0.0)
    }

    fn entries(self) -> impl Iterator<Item = (&'a String, &'a Value)> {
        self.0.into_iter().flatten()
    }

    /// Every entry that is no extension.
    fn named(self) -> impl Iterator<Item = (String, Fields<'a>)> {
        let plain = self.entries().filter(|(name, _)| !name.starts_with("x-"));
        plain.map(|(name, value)| (name.clone(), Fields::of(value)))
    }

    fn extensions(self) -> Vec<NamedAny> {
        let extensions = self.entries().filter(|(name, _)| name.starts_with("x-"));
        extensions.map(|(name, value)| NamedAny { name: name.clone(), value: Some(any(value)) }).collect()
    }
}

fn any(value: &Value) -> Any {
    Any { yaml: yaml::encode(value) }
}

fn read_document(document: Fields<'_>) -> Document {
    Document {
        swagger: document.text("swagger"),
        info: document.object("info").map(|info| Info {
            title: info.text("title"),
            version: info.text("version"),
            description: info.text("description"),
            vendor_extension: info.extensions(),
        }),
        host: document.text("host"),
        base_path: document.text("basePath"),
        schemes: document.texts("schemes"),
        consumes: document.texts("consumes"),
        produces: document.texts("produces"),
        paths: document.object("paths").map(|paths| Paths {
            path: paths
                .named()
                .map(|(name, item)| NamedPathItem { name, value: Some(read_path_item(item)) })
                .collect(),
            vendor_extension: paths.extensions(),
        }),
        definitions: document.object("definitions").map(read_schemas),
        parameters: document.object("parameters").map(|all| ParameterDefinitions {
            all: all
                .named()
                .map(|(name, it)| NamedParameter { name, value: Some(read_parameter(it)) })
                .collect(),
        }),
        security: document.list("security").iter().map(Fields::of).map(read_requirement).collect(),
        security_definitions: document.object("securityDefinitions").map(read_security),
        vendor_extension: document.extensions(),
    }
}

fn read_path_item(item: Fields<'_>) -> PathItem {
    let operation = |verb: &str| item.object(verb).map(read_operation);
    PathItem {
        get: operation("get"),
        put: operation("put"),
        post: operation("post"),
        delete: operation("delete"),
        options: operation("options"),
        head: operation("head"),
        patch: operation("patch"),
        parameters: read_parameters(item),
        vendor_extension: item.extensions(),
    }
}

fn read_operation(operation: Fields<'_>) -> Operation {
    Operation {
        tags: operation.texts("tags"),
        summary: operation.text("summary"),
        description: operation.text("description"),
        operation_id: operation.text("operationId"),
        produces: operation.texts("produces"),
        consumes: operation.texts("consumes"),
        parameters: read_parameters(operation),
        responses: operation.object("responses").map(|responses| Responses {
            response_code: responses.named().map(read_response).collect(),
            vendor_extension: responses.extensions(),
        }),
        schemes: operation.texts("schemes"),
        deprecated: operation.truth("deprecated"),
        vendor_extension: operation.extensions(),
    }
}

fn read_response((name, response): (String, Fields<'_>)) -> NamedResponseValue {
    let schema = response.object("schema").map(|schema| SchemaItem { schema: Some(read_schema(schema)) });
    let response = Response {
        description: response.text("description"),
        schema,
        vendor_extension: response.extensions(),
    };
    NamedResponseValue { name, value: Some(ResponseValue { response: Some(response) }) }
}

fn read_parameters(owner: Fields<'_>) -> Vec<ParametersItem> {
    let items = owner.list("parameters").iter().map(Fields::of).map(|parameter| {
        let reference = parameter.text("$ref");
        match reference.is_empty() {
            true => ParameterOrReference::Parameter(Box::new(read_parameter(parameter))),
            false => ParameterOrReference::Reference(JsonReference { reference, description: String::new() }),
        }
    });
    items.map(|item| ParametersItem { item: Some(item) }).collect()
}

fn read_parameter(parameter: Fields<'_>) -> Parameter {
    let place = parameter.text("in");
    let plain = |place| PlainParameter {
        required: parameter.truth("required"),
        place,
        description: parameter.text("description"),
        name: parameter.text("name"),
        kind: parameter.text("type"),
        format: parameter.text("format"),
        unique_items: parameter.truth("uniqueItems"),
        vendor_extension: parameter.extensions(),
    };
    let kind = match place.as_str() {
        "body" => ParameterKind::Body(Box::new(BodyParameter {
            description: parameter.text("description"),
            name: parameter.text("name"),
            place,
            required: parameter.truth("required"),
            schema: parameter.object("schema").map(read_schema),
            vendor_extension: parameter.extensions(),
        })),
        "path" => non_body(NonBodyKind::Path(plain(place))),
        "header" => non_body(NonBodyKind::Header(plain(place))),
        _ => non_body(NonBodyKind::Query(QueryParameter {
            required: parameter.truth("required"),
            place,
            description: parameter.text("description"),
            name: parameter.text("name"),
            allow_empty_value: parameter.truth("allowEmptyValue"),
            kind: parameter.text("type"),
            format: parameter.text("format"),
            unique_items: parameter.truth("uniqueItems"),
            vendor_extension: parameter.extensions(),
        })),
    };
    Parameter { kind: Some(kind) }
}

fn non_body(kind: NonBodyKind) -> ParameterKind {
    ParameterKind::NonBody(NonBodyParameter { kind: Some(kind) })
}

/// Names of properties may begin with `x-`, so nothing is taken for an extension here.
fn read_schemas(schemas: Fields<'_>) -> NamedSchemas {
    let all = schemas.entries();
    let all =
        all.map(|(name, it)| NamedSchema { name: name.clone(), value: Some(read_schema(Fields::of(it))) });
    NamedSchemas { all: all.collect() }
}

fn read_schema(schema: Fields<'_>) -> Schema {
    let additional = schema.get("additionalProperties").and_then(|additional| match additional {
        Value::Bool(truth) => Some(SchemaOrBoolean::Boolean(*truth)),
        Value::Object(fields) => Some(SchemaOrBoolean::Schema(Box::new(read_schema(Fields(Some(fields)))))),
        _ => None,
    });
    let kind = match schema.get("type") {
        Some(Value::String(one)) => Some(Strings { value: vec![one.clone()] }),
        Some(Value::Array(_)) => Some(Strings { value: schema.texts("type") }),
        _ => None,
    };
    Schema {
        reference: schema.text("$ref"),
        format: schema.text("format"),
        title: schema.text("title"),
        description: schema.text("description"),
        default: schema.get("default").map(any),
        multiple_of: schema.number("multipleOf"),
        maximum: schema.number("maximum"),
        exclusive_maximum: schema.truth("exclusiveMaximum"),
        minimum: schema.number("minimum"),
        exclusive_minimum: schema.truth("exclusiveMinimum"),
        max_length: schema.integer("maxLength"),
        min_length: schema.integer("minLength"),
        pattern: schema.text("pattern"),
        max_items: schema.integer("maxItems"),
        min_items: schema.integer("minItems"),
        unique_items: schema.truth("uniqueItems"),
        max_properties: schema.integer("maxProperties"),
        min_properties: schema.integer("minProperties"),
        required: schema.texts("required"),
        enumeration: schema.list("enum").iter().map(any).collect(),
        additional_properties: additional.map(|item| AdditionalProperties { item: Some(item) }),
        kind,
        items: schema.object("items").map(|items| Items { schema: vec![read_schema(items)] }),
        all_of: schema.list("allOf").iter().map(Fields::of).map(read_schema).collect(),
        properties: schema.object("properties").map(read_schemas),
        discriminator: schema.text("discriminator"),
        read_only: schema.truth("readOnly"),
        vendor_extension: schema.extensions(),
    }
}

fn read_requirement(requirement: Fields<'_>) -> SecurityRequirement {
    let all = requirement.entries().map(|(name, _)| NamedStrings {
        name: name.clone(),
        value: Some(Strings { value: requirement.texts(name) }),
    });
    SecurityRequirement { all: all.collect() }
}

fn read_security(definitions: Fields<'_>) -> SecurityDefinitions {
    let all = definitions.named().map(|(name, definition)| {
        let api_key = ApiKey {
            kind: definition.text("type"),
            name: definition.text("name"),
            place: definition.text("in"),
            description: definition.text("description"),
        };
        NamedSecurityDefinition { name, value: Some(SecurityDefinition { api_key: Some(api_key) }) }
    });
    SecurityDefinitions { all: all.collect() }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A length-delimited field, by hand: the messages under test are not asked.
    fn field(number: u8, content: impl AsRef<[u8]>) -> Vec<u8> {
        let content = content.as_ref();
        let key = u32::from(number) << 3 | 2;
        let mut bytes = if key < 128 { vec![key as u8] } else { vec![key as u8 | 0x80, (key >> 7) as u8] };
        bytes.push(u8::try_from(content.len()).unwrap());
        bytes.extend(content);
        bytes
    }

    #[test]
    fn bytes_on_the_wire() {
        let document = json!({"swagger": "2.0", "definitions": {"A": {"type": "object", "x-k": "v"}}});
        let kind = field(22, field(1, "object"));
        let extension = field(31, [field(1, "x-k"), field(2, field(2, "v\n"))].concat());
        let schema = field(2, [kind, extension].concat());
        let definitions = field(9, field(1, [field(1, "A"), schema].concat()));
        assert_eq!(encode(&document), [field(1, "2.0"), definitions].concat());
    }

    #[test]
    fn nothing_kubernetes_says_is_lost() {
        let document = json!({
            "swagger": "2.0",
            "info": {"title": "Kubernetes", "version": "v1.36.0"},
            "paths": {"/api/v1/namespaces/{namespace}/pods": {
                "get": {
                    "operationId": "listPods", "tags": ["core_v1"], "produces": ["application/json"],
                    "parameters": [{"name": "limit", "in": "query", "type": "integer", "uniqueItems": true}, {"$ref": "#/parameters/pretty"}],
                    "responses": {"200": {"description": "OK", "schema": {"$ref": "#/definitions/PodList"}}},
                    "x-kubernetes-action": "list",
                    "x-kubernetes-group-version-kind": {"group": "", "version": "v1", "kind": "Pod"},
                },
                "post": {"parameters": [{"name": "body", "in": "body", "required": true, "schema": {"$ref": "#/definitions/Pod"}}]},
                "parameters": [{"name": "namespace", "in": "path", "required": true, "type": "string"}],
            }},
            "definitions": {"Pod": {
                "description": "d", "type": "object", "required": ["spec"],
                "properties": {
                    "spec": {"allOf": [{"$ref": "#/definitions/PodSpec"}], "default": {}},
                    "labels": {"type": "object", "additionalProperties": {"type": "string"}},
                    "ports": {"type": "array", "items": {"type": "integer", "format": "int32"}, "x-kubernetes-patch-merge-key": "port"},
                    "x-odd": {"type": "string", "enum": ["a", "b"]},
                },
                "x-kubernetes-group-version-kind": [{"group": "", "kind": "Pod", "version": "v1"}],
            }},
            "parameters": {"pretty": {"name": "pretty", "in": "query", "type": "string"}},
            "security": [{"BearerToken": []}],
            "securityDefinitions": {"BearerToken": {"type": "apiKey", "name": "authorization", "in": "header", "description": "Bearer Token authentication"}},
        });
        let read = Document::decode(encode(&document).as_slice()).unwrap();
        let pod = &read.definitions.as_ref().unwrap().all[0];
        let schema = pod.value.as_ref().unwrap();
        assert_eq!((pod.name.as_str(), schema.required.as_slice()), ("Pod", ["spec".to_owned()].as_slice()));
        let gvk = &schema.vendor_extension[0];
        assert_eq!(gvk.name, "x-kubernetes-group-version-kind");
        assert_eq!(
            yaml::decode(gvk.value.as_ref().unwrap().yaml.as_bytes()).unwrap().value,
            json!([{"group": "", "kind": "Pod", "version": "v1"}])
        );
        let property = |name: &str| {
            let all = &schema.properties.as_ref().unwrap().all;
            all.iter().find(|property| property.name == name).unwrap().value.clone().unwrap()
        };
        assert_eq!(property("spec").all_of[0].reference, "#/definitions/PodSpec");
        assert_eq!(property("ports").items.unwrap().schema[0].format, "int32");
        assert_eq!(property("x-odd").enumeration.len(), 2);
        assert!(matches!(
            property("labels").additional_properties.unwrap().item,
            Some(SchemaOrBoolean::Schema(_))
        ));
        let path = read.paths.as_ref().unwrap().path[0].value.as_ref().unwrap();
        let get = path.get.as_ref().unwrap();
        assert_eq!(
            (get.operation_id.as_str(), get.parameters.len(), get.vendor_extension.len()),
            ("listPods", 2, 2)
        );
        assert_eq!(get.responses.as_ref().unwrap().response_code[0].name, "200");
        assert_eq!(path.parameters.len(), 1);
        assert_eq!(
            read.security_definitions.unwrap().all[0].value.as_ref().unwrap().api_key.as_ref().unwrap().place,
            "header"
        );
    }
}

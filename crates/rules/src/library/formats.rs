//! Named formats: `format.dns1123Label().validate(self.name)`

use std::sync::Arc;

use objects::names;

use super::{Cost, Opaque, OpaqueKind, Overload, Size, T, function, member, take, time, url};
use crate::error::EvalError;
use crate::value::Val;

/// A name, and the function that says what is wrong with a text.
type Row = (&'static str, fn(&str) -> Vec<String>);

/// A row of the table below.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Format(&'static Row);

impl Format {
    pub fn name(self) -> &'static str {
        self.0.0
    }
}

const FORMAT: T = T::Opaque(OpaqueKind::Format);
const FOUND: T = T::Optional(&T::List(&T::Str));

static FORMATS: [Row; 13] = [
    ("dns1123Label", |t| names::dns1123_label(t)),
    ("dns1123Subdomain", |t| names::dns1123_subdomain(t)),
    ("dns1035Label", |t| names::dns1035_label(t)),
    ("qualifiedName", |t| names::qualified_name(t)),
    ("labelValue", |t| names::label_value(t)),
    // A prefix is what a name is generated from: a trailing hyphen is not its end.
    ("dns1123LabelPrefix", |t| names::dns1123_label(&names::as_prefix(t))),
    ("dns1123SubdomainPrefix", |t| names::dns1123_subdomain(&names::as_prefix(t))),
    ("dns1035LabelPrefix", |t| names::dns1035_label(&names::as_prefix(t))),
    ("uri", |t| url::parse(t).err().map(str::to_owned).into_iter().collect()),
    ("uuid", |t| refusal(is_uuid(t), "does not match the UUID format")),
    ("byte", |t| refusal(time::base64(t).is_some() && t.len() % 4 == 0, "invalid base64")),
    ("date", |t| refusal(t.len() == 10 && t.parse::<jiff::civil::Date>().is_ok(), "invalid date")),
    ("datetime", |t| refusal(time::parse_timestamp(t).is_some(), "invalid datetime")),
];

macro_rules! constants {
    ($($name:literal),* $(,)?) => {
        &[
            $(function(concat!("format.", $name), &[], FORMAT, |_, _| named($name)),)*
            function("format.named", &[T::Str], T::Optional(&FORMAT), |v, _| {
                take!(v, [Val::Str(name)] => Ok(Val::optional(named(name).ok())))
            }),
            member("validate", &[FORMAT, T::Str], FOUND, |v, _| take!(v, [Val::Opaque(opaque), Val::Str(text)] => {
                let Opaque::Format(format) = &**opaque else { return Err(EvalError::NoSuchOverload) };
                let found: Vec<Val<'_>> = (format.0.1)(text).into_iter().map(Val::from).collect();
                Ok(Val::optional((!found.is_empty()).then(|| found.into())))
            }))
            .cost(Cost::Scan(1))
            .size(Size::AtMost(16)),
        ]
    };
}

pub(super) const OVERLOADS: &[Overload] = constants![
    "dns1123Label",
    "dns1123Subdomain",
    "dns1035Label",
    "qualifiedName",
    "labelValue",
    "dns1123LabelPrefix",
    "dns1123SubdomainPrefix",
    "dns1035LabelPrefix",
    "uri",
    "uuid",
    "byte",
    "date",
    "datetime",
];

fn named<'a>(name: &str) -> Result<Val<'a>, EvalError> {
    let row = FORMATS.iter().find(|(known, _)| *known == name);
    row.map(|row| Val::Opaque(Arc::new(Opaque::Format(Format(row))))).ok_or(EvalError::NoSuchOverload)
}

fn refusal(fits: bool, message: &str) -> Vec<String> {
    if fits { Vec::new() } else { vec![message.to_owned()] }
}

fn is_uuid(text: &str) -> bool {
    let groups: Vec<&str> = text.split('-').collect();
    groups.iter().map(|g| g.len()).eq([8, 4, 4, 4, 12])
        && groups.iter().all(|g| g.bytes().all(|b| b.is_ascii_hexdigit()))
}

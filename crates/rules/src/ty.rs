//! Types while checking: what is known of a value before there is one.

use std::fmt;
use std::sync::Arc;

use crate::library::{OpaqueKind, T};
use crate::types::{Place, Shape, TypeId};

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Ty {
    /// Anything: checked when it is evaluated.
    Dyn,
    Null,
    Bool,
    Int,
    Uint,
    Double,
    Str,
    Bytes,
    Duration,
    Timestamp,
    Type,
    List(Arc<Ty>),
    Map(Arc<Ty>, Arc<Ty>),
    Object(TypeId),
    Optional(Arc<Ty>),
    Opaque(OpaqueKind),
    /// An object of the caller's, or whatever one of its methods gave.
    Host,
    /// `variables`: what it has is in [`crate::check::Checker::definitions`].
    Definitions,
}

/// Lists of lists that a type follows; deeper is dynamic.
const MAX_NESTING: u8 = 32;

impl Ty {
    pub fn of(place: Place<'_>, id: TypeId) -> Ty {
        Ty::within(place, id, MAX_NESTING)
    }

    fn within(place: Place<'_>, id: TypeId, nesting: u8) -> Ty {
        let Some(nesting) = nesting.checked_sub(1) else { return Ty::Dyn };
        match place.shape() {
            Shape::Dyn => Ty::Dyn,
            Shape::Bool => Ty::Bool,
            Shape::Int => Ty::Int,
            Shape::Double => Ty::Double,
            Shape::Str => Ty::Str,
            Shape::Bytes => Ty::Bytes,
            Shape::Duration => Ty::Duration,
            Shape::Timestamp => Ty::Timestamp,
            Shape::List { item, .. } => Ty::List(Arc::new(Ty::within(place.to(*item), *item, nesting))),
            Shape::Map { value } => {
                Ty::Map(Arc::new(Ty::Str), Arc::new(Ty::within(place.to(*value), *value, nesting)))
            }
            Shape::Object { .. } => Ty::Object(id),
        }
    }

    pub fn optional(inner: Ty) -> Ty {
        Ty::Optional(Arc::new(inner))
    }

    pub fn list(inner: Ty) -> Ty {
        Ty::List(Arc::new(inner))
    }

    /// The type as another expression may know it, which does not know the schema of its objects.
    pub fn without_objects(&self) -> Ty {
        match self {
            Ty::Object(_) => Ty::Dyn,
            Ty::List(item) => Ty::list(item.without_objects()),
            Ty::Map(key, value) => Ty::Map(key.clone(), Arc::new(value.without_objects())),
            Ty::Optional(inner) => Ty::optional(inner.without_objects()),
            other => other.clone(),
        }
    }

    pub fn is_dynamic(&self) -> bool {
        matches!(self, Ty::Dyn | Ty::Host)
    }

    /// Whether a value of the type may be a boolean.
    pub fn may_be(&self, wanted: &Ty) -> bool {
        self.agree(wanted).is_some()
    }

    /// The type that both can be taken for.
    pub fn agree(&self, other: &Ty) -> Option<Ty> {
        match (self, other) {
            (Ty::Dyn | Ty::Host, _) | (_, Ty::Dyn | Ty::Host) => Some(Ty::Dyn),
            (a, b) if a == b => Some(a.clone()),
            (Ty::Null, t) | (t, Ty::Null) if t.nullable() => Some(t.clone()),
            (Ty::List(a), Ty::List(b)) => a.agree(b).map(Ty::list),
            (Ty::Map(ka, va), Ty::Map(kb, vb)) => {
                Some(Ty::Map(Arc::new(ka.agree(kb)?), Arc::new(va.agree(vb)?)))
            }
            (Ty::Optional(a), Ty::Optional(b)) => a.agree(b).map(Ty::optional),
            _ => None,
        }
    }

    fn nullable(&self) -> bool {
        matches!(self, Ty::Object(_) | Ty::Optional(_) | Ty::Opaque(_) | Ty::Duration | Ty::Timestamp)
    }
}

impl fmt::Display for Ty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Ty::Dyn | Ty::Host => f.write_str("dyn"),
            Ty::Null => f.write_str("null"),
            Ty::Bool => f.write_str("bool"),
            Ty::Int => f.write_str("int"),
            Ty::Uint => f.write_str("uint"),
            Ty::Double => f.write_str("double"),
            Ty::Str => f.write_str("string"),
            Ty::Bytes => f.write_str("bytes"),
            Ty::Duration => f.write_str("google.protobuf.Duration"),
            Ty::Timestamp => f.write_str("google.protobuf.Timestamp"),
            Ty::Type => f.write_str("type"),
            Ty::List(item) => write!(f, "list({item})"),
            Ty::Map(key, value) => write!(f, "map({key}, {value})"),
            Ty::Object(_) | Ty::Definitions => f.write_str("object"),
            Ty::Optional(inner) => write!(f, "optional_type({inner})"),
            Ty::Opaque(kind) => f.write_str(kind.name()),
        }
    }
}

/// What `A` and `B` of one signature stand for.
#[derive(Default)]
pub(crate) struct Variables {
    a: Option<Ty>,
    b: Option<Ty>,
}

impl Variables {
    /// Whether a value of the type can be passed where the signature says `wanted`.
    pub fn accept(&mut self, wanted: &T, given: &Ty) -> bool {
        let slot = match wanted {
            T::A => &mut self.a,
            T::B => &mut self.b,
            _ => return self.accept_known(wanted, given),
        };
        let joint = match slot.as_ref() {
            None => Some(given.clone()),
            Some(bound) => bound.agree(given),
        };
        match joint {
            Some(ty) => {
                *slot = Some(ty);
                true
            }
            None => false,
        }
    }

    fn accept_known(&mut self, wanted: &T, given: &Ty) -> bool {
        match (wanted, given) {
            (T::Dyn, _) | (_, Ty::Dyn | Ty::Host) => true,
            (T::List(wanted), Ty::List(given)) | (T::Optional(wanted), Ty::Optional(given)) => {
                self.accept(wanted, given)
            }
            (T::Map(key, value), Ty::Map(given_key, given_value)) => {
                self.accept(key, given_key) && self.accept(value, given_value)
            }
            (T::Opaque(wanted), Ty::Opaque(given)) => wanted == given,
            (T::Number, Ty::Int | Ty::Uint | Ty::Double) => true,
            (wanted, given) => plain(wanted).is_some_and(|t| t == *given),
        }
    }

    /// A type of the signature with `A` and `B` filled in.
    pub fn resolve(&self, t: &T) -> Ty {
        match t {
            T::A => self.a.clone().unwrap_or(Ty::Dyn),
            T::B => self.b.clone().unwrap_or(Ty::Dyn),
            T::List(item) => Ty::list(self.resolve(item)),
            T::Map(key, value) => Ty::Map(Arc::new(self.resolve(key)), Arc::new(self.resolve(value))),
            T::Optional(inner) => Ty::optional(self.resolve(inner)),
            T::Opaque(kind) => Ty::Opaque(*kind),
            other => plain(other).unwrap_or(Ty::Dyn),
        }
    }
}

fn plain(t: &T) -> Option<Ty> {
    Some(match t {
        T::Bool => Ty::Bool,
        T::Int => Ty::Int,
        T::Uint => Ty::Uint,
        T::Double => Ty::Double,
        T::Str => Ty::Str,
        T::Bytes => Ty::Bytes,
        T::Duration => Ty::Duration,
        T::Timestamp => Ty::Timestamp,
        T::Type => Ty::Type,
        _ => return None,
    })
}

//! Schemas of providers, resources and the like: one form for both versions of the protocol.
//!
//! A nested attribute of protocol 6 and a nested block are the same thing here, a [`Nested`]; only what a user may
//! leave out, and whether the whole can be null, tells them apart.

use std::collections::BTreeMap;

use prost::Message;

use crate::change;
use crate::protocol::Version;
use crate::protocol::messages::{self, Attribute5, Attribute6};
use crate::value::{Type, TypeError, Value};

/// How deep blocks may be nested.
const DEEPEST: usize = 64;

#[derive(Clone, Debug, PartialEq)]
pub struct Schema {
    /// Of the state it describes; a state of an older version is upgraded by the provider.
    pub version: i64,
    pub block: Block,
    ty: Type,
    has_write_only: bool,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Block {
    pub members: BTreeMap<String, Member>,
    pub description: String,
}

/// An attribute or a nested block, by its name in the block.
#[derive(Clone, Debug, PartialEq)]
pub struct Member {
    pub shape: Shape,
    pub required: bool,
    pub optional: bool,
    /// The provider may give the value.
    pub computed: bool,
    pub sensitive: bool,
    /// Taken from the configuration and never kept.
    pub write_only: bool,
    pub deprecated: bool,
    pub description: String,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Shape {
    Plain(Type),
    Nested(Box<Nested>),
}

#[derive(Clone, Debug, PartialEq)]
pub struct Nested {
    pub nesting: Nesting,
    pub block: Block,
    /// Written as a block: a list or a set of it is empty rather than null, and it is never computed as a whole.
    pub is_block: bool,
    pub min_items: i64,
    /// Zero for any number.
    pub max_items: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nesting {
    Single,
    /// Like single, but never null.
    Group,
    List,
    Set,
    Map,
}

impl Nested {
    /// One object, however the provider counts it: Kubeform shows it without the list around it.
    pub fn is_one(&self) -> bool {
        match self.nesting {
            Nesting::Single | Nesting::Group => true,
            Nesting::List | Nesting::Set => self.max_items == 1,
            Nesting::Map => false,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SchemaError {
    #[error("the provider's schema is not valid protobuf: {0}")]
    Encoding(String),
    #[error("the provider's schema has no block")]
    NoBlock,
    #[error("attribute {name:?} of the provider's schema: {error}")]
    Type { name: String, error: TypeError },
    #[error("block {0:?} of the provider's schema has a nesting that this version does not know")]
    Nesting(String),
    #[error("the provider's schema is nested too deeply")]
    TooDeep,
}

impl Schema {
    pub fn decode(bytes: &[u8], version: Version) -> Result<Schema, SchemaError> {
        let schema =
            messages::Schema::decode(bytes).map_err(|error| SchemaError::Encoding(error.to_string()))?;
        let block = schema.block.ok_or(SchemaError::NoBlock)?;
        Ok(Schema::new(schema.version, Block::decode(block, version, DEEPEST)?))
    }

    pub fn new(version: i64, block: Block) -> Schema {
        let (ty, has_write_only) = (block.implied_type(), block.has_write_only());
        Schema { version, block, ty, has_write_only }
    }

    /// What a provider that takes no configuration has.
    pub fn empty() -> Schema {
        Schema::new(0, Block::default())
    }

    /// A value as it may be kept: what is only written is in none, whatever a provider says.
    pub fn kept(&self, value: Value) -> Value {
        if !self.has_write_only {
            return value;
        }
        let null = |member: &Member, value| if member.write_only { Value::Null } else { value };
        change::rewrite(&self.block, value, &null)
    }

    /// The type of values of this schema.
    pub fn ty(&self) -> &Type {
        &self.ty
    }
}

impl Block {
    fn has_write_only(&self) -> bool {
        self.members.values().any(|member| {
            let inside = |nested: &Nested| nested.block.has_write_only();
            member.write_only || matches!(&member.shape, Shape::Nested(nested) if inside(nested))
        })
    }

    fn decode(block: messages::Block, version: Version, depth: usize) -> Result<Block, SchemaError> {
        let depth = depth.checked_sub(1).ok_or(SchemaError::TooDeep)?;
        let mut members = BTreeMap::new();
        for bytes in block.attributes {
            let wrong = |error: prost::DecodeError| SchemaError::Encoding(error.to_string());
            let attribute = match version {
                Version::V5 => six(Attribute5::decode(bytes).map_err(wrong)?),
                Version::V6 => Attribute6::decode(bytes).map_err(wrong)?,
            };
            members.insert(attribute.name.clone(), Member::decode(attribute, depth)?);
        }
        for nested in block.block_types {
            let nesting = match nested.nesting {
                1 => Nesting::Single,
                2 => Nesting::List,
                3 => Nesting::Set,
                4 => Nesting::Map,
                5 => Nesting::Group,
                _ => return Err(SchemaError::Nesting(nested.type_name)),
            };
            let inner = nested.block.ok_or(SchemaError::NoBlock)?;
            let description = inner.description.clone();
            let deprecated = inner.deprecated;
            let shape = Shape::Nested(Box::new(Nested {
                nesting,
                block: Block::decode(inner, version, depth)?,
                is_block: true,
                min_items: nested.min_items,
                max_items: nested.max_items,
            }));
            let required = nested.min_items > 0;
            let member = Member {
                shape,
                required,
                optional: !required,
                computed: false,
                sensitive: false,
                write_only: false,
                deprecated,
                description,
            };
            members.insert(nested.type_name, member);
        }
        Ok(Block { members, description: block.description })
    }

    pub fn implied_type(&self) -> Type {
        Type::object(self.members.iter().map(|(name, member)| (name.clone(), member.ty())))
    }
}

/// An attribute of protocol 5 in the form of protocol 6.
fn six(attribute: Attribute5) -> Attribute6 {
    Attribute6 {
        name: attribute.name,
        r#type: attribute.r#type,
        description: attribute.description,
        required: attribute.required,
        optional: attribute.optional,
        computed: attribute.computed,
        sensitive: attribute.sensitive,
        deprecated: attribute.deprecated,
        nested_type: None,
        write_only: attribute.write_only,
    }
}

impl Member {
    fn decode(attribute: Attribute6, depth: usize) -> Result<Member, SchemaError> {
        let depth = depth.checked_sub(1).ok_or(SchemaError::TooDeep)?;
        let shape = match attribute.nested_type {
            None => Shape::Plain(
                Type::parse(&attribute.r#type)
                    .map_err(|error| SchemaError::Type { name: attribute.name.clone(), error })?,
            ),
            Some(object) => {
                let nesting = match object.nesting {
                    1 => Nesting::Single,
                    2 => Nesting::List,
                    3 => Nesting::Set,
                    4 => Nesting::Map,
                    _ => return Err(SchemaError::Nesting(attribute.name)),
                };
                let mut members = BTreeMap::new();
                for inner in object.attributes {
                    members.insert(inner.name.clone(), Member::decode(inner, depth)?);
                }
                let block = Block { members, description: String::new() };
                Shape::Nested(Box::new(Nested {
                    nesting,
                    block,
                    is_block: false,
                    min_items: 0,
                    max_items: 0,
                }))
            }
        };
        Ok(Member {
            shape,
            required: attribute.required,
            optional: attribute.optional,
            computed: attribute.computed,
            sensitive: attribute.sensitive,
            write_only: attribute.write_only,
            deprecated: attribute.deprecated,
            description: attribute.description,
        })
    }

    pub fn ty(&self) -> Type {
        match &self.shape {
            Shape::Plain(ty) => ty.clone(),
            Shape::Nested(nested) => {
                let inner = nested.block.implied_type();
                match nested.nesting {
                    Nesting::Single | Nesting::Group => inner,
                    Nesting::List => Type::List(Box::new(inner)),
                    Nesting::Set => Type::Set(Box::new(inner)),
                    Nesting::Map => Type::Map(Box::new(inner)),
                }
            }
        }
    }

    /// Nobody may set it.
    pub fn read_only(&self) -> bool {
        self.computed && !self.optional && !self.required
    }

    /// It, or something in it, is sensitive or write-only.
    pub fn has_secrets(&self) -> bool {
        self.is_secret()
            || match &self.shape {
                Shape::Plain(_) => false,
                Shape::Nested(nested) => nested.block.members.values().any(Member::has_secrets),
            }
    }

    /// It is kept out of the object as a whole.
    pub fn is_secret(&self) -> bool {
        self.sensitive || self.write_only
    }
}

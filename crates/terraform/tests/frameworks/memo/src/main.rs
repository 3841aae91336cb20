//! Notes and safes, each a file in a directory; on the framework `tf-provider`: protocol 6, TCP, mutual TLS.

mod safe;

use std::borrow::Cow;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use tf_provider::schema::{
    Attribute, AttributeConstraint, AttributeType, Block, Description, FunctionSchema, NestedBlock,
    Parameter, Schema, Type,
};
use tf_provider::value::{ValueEmpty, ValueList, ValueNumber, ValueString};
use tf_provider::{
    AttributePath, Diagnostics, DynamicDataSource, DynamicFunction, DynamicResource, Function, Provider,
    Resource, map, serve,
};

fn attribute(attr_type: AttributeType, constraint: AttributeConstraint) -> Attribute {
    Attribute { attr_type, constraint, description: Description::plain(""), ..Default::default() }
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct Note<'a> {
    #[serde(borrow = "'a")]
    id: ValueString<'a>,
    title: ValueString<'a>,
    text: ValueString<'a>,
    length: ValueNumber,
    page: ValueList<Page<'a>>,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct Page<'a> {
    #[serde(borrow = "'a")]
    text: ValueString<'a>,
    number: ValueNumber,
}

/// Where all of them are, once the provider is configured.
#[derive(Clone)]
pub struct Directory(Arc<OnceLock<PathBuf>>);

impl Directory {
    fn path(&self, id: &str) -> PathBuf {
        self.0.get().expect("configured").join(id)
    }
}

struct Notes(Directory);

impl Notes {
    fn write(&self, state: &Note<'_>) {
        let text = state.text.as_deref_option().unwrap_or_default();
        std::fs::write(self.0.path(state.id.as_deref_option().unwrap_or_default()), text).expect("a place");
    }
}

fn computed(mut note: Note<'_>) -> Note<'_> {
    note.length = ValueNumber::Value(note.text.as_deref_option().unwrap_or_default().len() as i64);
    if let ValueList::Value(pages) = &mut note.page {
        for (index, page) in pages.iter_mut().enumerate() {
            page.number = ValueNumber::Value(index as i64 + 1);
        }
    }
    note
}

#[async_trait]
impl Resource for Notes {
    type State<'a> = Note<'a>;
    type PrivateState<'a> = ValueEmpty;
    type ProviderMetaState<'a> = ValueEmpty;

    fn schema(&self, _: &mut Diagnostics) -> Option<Schema> {
        let page = map! {
            "text" => attribute(AttributeType::String, AttributeConstraint::Required),
            "number" => attribute(AttributeType::Number, AttributeConstraint::Computed),
        };
        Some(Schema {
            version: 1,
            block: Block {
                version: 1,
                attributes: map! {
                    "id" => attribute(AttributeType::String, AttributeConstraint::Computed),
                    "title" => attribute(AttributeType::String, AttributeConstraint::Required),
                    "text" => attribute(AttributeType::String, AttributeConstraint::Optional),
                    "length" => attribute(AttributeType::Number, AttributeConstraint::Computed),
                },
                blocks: map! {
                    "page" => NestedBlock::List(Block { attributes: page, ..Default::default() }),
                },
                ..Default::default()
            },
        })
    }

    async fn validate<'a>(&self, diags: &mut Diagnostics, config: Note<'a>) -> Option<()> {
        if config.title.as_deref_option() == Some("") {
            diags.error_short("a note needs a title", AttributePath::new("title"));
            return None;
        }
        Some(())
    }

    async fn read<'a>(
        &self,
        _: &mut Diagnostics,
        mut state: Note<'a>,
        private: ValueEmpty,
        _: ValueEmpty,
    ) -> Option<(Note<'a>, ValueEmpty)> {
        let text = std::fs::read_to_string(self.0.path(state.id.as_deref_option()?));
        match text {
            Ok(text) => {
                state.text =
                    if text.is_empty() { ValueString::Null } else { ValueString::Value(Cow::Owned(text)) };
                Some((computed(state), private))
            }
            // The framework has no way to say that it is gone.
            Err(_) => Some((state, private)),
        }
    }

    async fn plan_create<'a>(
        &self,
        _: &mut Diagnostics,
        mut proposed: Note<'a>,
        _: Note<'a>,
        _: ValueEmpty,
    ) -> Option<(Note<'a>, ValueEmpty)> {
        proposed.id = ValueString::Unknown;
        Some((computed(proposed), Default::default()))
    }

    async fn plan_update<'a>(
        &self,
        _: &mut Diagnostics,
        prior: Note<'a>,
        proposed: Note<'a>,
        _: Note<'a>,
        private: ValueEmpty,
        _: ValueEmpty,
    ) -> Option<(Note<'a>, ValueEmpty, Vec<AttributePath>)> {
        let replace = if prior.title == proposed.title { vec![] } else { vec![AttributePath::new("title")] };
        Some((computed(proposed), private, replace))
    }

    async fn plan_destroy<'a>(
        &self,
        _: &mut Diagnostics,
        _: Note<'a>,
        private: ValueEmpty,
        _: ValueEmpty,
    ) -> Option<ValueEmpty> {
        Some(private)
    }

    async fn create<'a>(
        &self,
        _: &mut Diagnostics,
        mut planned: Note<'a>,
        _: Note<'a>,
        private: ValueEmpty,
        _: ValueEmpty,
    ) -> Option<(Note<'a>, ValueEmpty)> {
        planned.id = ValueString::Value(Cow::Owned(format!("note-{}", planned.title.as_deref_option()?)));
        self.write(&planned);
        Some((planned, private))
    }

    async fn update<'a>(
        &self,
        _: &mut Diagnostics,
        _: Note<'a>,
        planned: Note<'a>,
        _: Note<'a>,
        private: ValueEmpty,
        _: ValueEmpty,
    ) -> Option<(Note<'a>, ValueEmpty)> {
        self.write(&planned);
        Some((planned, private))
    }

    async fn destroy<'a>(
        &self,
        _: &mut Diagnostics,
        state: Note<'a>,
        _: ValueEmpty,
        _: ValueEmpty,
    ) -> Option<()> {
        std::fs::remove_file(self.0.path(state.id.as_deref_option()?)).ok();
        Some(())
    }
}

/// `shout(text)`.
struct Shout;

#[async_trait]
impl Function for Shout {
    type Input<'a> = (String,);
    type Output<'a> = String;

    fn schema(&self, _: &mut Diagnostics) -> Option<FunctionSchema> {
        Some(FunctionSchema {
            parameters: vec![Parameter {
                name: "text".into(),
                param_type: Type::String,
                allow_null: false,
                allow_unknown: false,
                description: Description::plain(""),
            }],
            variadic: None,
            return_type: Type::String,
            summary: "louder".into(),
            description: Description::plain(""),
            deprecated: None,
        })
    }

    async fn call<'a>(&self, _: &mut Diagnostics, (text,): (String,)) -> Option<String> {
        Some(text.to_uppercase())
    }
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct Config<'a> {
    #[serde(borrow = "'a")]
    directory: ValueString<'a>,
}

struct Memo(Directory);

#[async_trait]
impl Provider for Memo {
    type Config<'a> = Config<'a>;
    type MetaState<'a> = ValueEmpty;

    fn schema(&self, _: &mut Diagnostics) -> Option<Schema> {
        let attributes =
            map! { "directory" => attribute(AttributeType::String, AttributeConstraint::Required) };
        Some(Schema { version: 1, block: Block { attributes, ..Default::default() } })
    }

    async fn validate<'a>(&self, _: &mut Diagnostics, _: Config<'a>) -> Option<()> {
        Some(())
    }

    async fn configure<'a>(&self, _: &mut Diagnostics, _: String, config: Config<'a>) -> Option<()> {
        self.0.0.set(config.directory.as_deref_option()?.into()).ok()
    }

    fn get_resources(&self, _: &mut Diagnostics) -> Option<HashMap<String, Box<dyn DynamicResource>>> {
        Some(map! { "note" => Notes(self.0.clone()), "safe" => safe::Safes(self.0.clone()) })
    }

    fn get_data_sources(&self, _: &mut Diagnostics) -> Option<HashMap<String, Box<dyn DynamicDataSource>>> {
        Some(map! {})
    }

    fn get_functions(&self, _: &mut Diagnostics) -> Option<HashMap<String, Box<dyn DynamicFunction>>> {
        Some(map! { "shout" => Shout })
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    serve("memo", Memo(Directory(Arc::default()))).await
}

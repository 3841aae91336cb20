//! Safes, each a file with its pin and its key, of which nobody is to see either.

use std::borrow::Cow;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use tf_provider::schema::{Attribute, AttributeConstraint, AttributeType, Block, Schema};
use tf_provider::value::{ValueEmpty, ValueString};
use tf_provider::{AttributePath, Diagnostics, Resource, map};

use super::{Directory, attribute};

/// Shorter ones are warned of.
const SHORT: usize = 8;

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Safe<'a> {
    #[serde(borrow = "'a")]
    id: ValueString<'a>,
    label: ValueString<'a>,
    pin: ValueString<'a>,
    key: ValueString<'a>,
}

pub struct Safes(pub Directory);

impl Safes {
    fn write(&self, safe: &Safe<'_>) -> Option<()> {
        let text = |value: &ValueString<'_>| value.as_deref_option().unwrap_or_default().to_owned();
        let content = format!("{}\n{}\n{}\n", text(&safe.label), text(&safe.pin), text(&safe.key));
        std::fs::write(self.0.path(safe.id.as_deref_option()?), content).ok()
    }
}

fn hidden(constraint: AttributeConstraint) -> Attribute {
    Attribute { sensitive: true, ..attribute(AttributeType::String, constraint) }
}

#[async_trait]
impl Resource for Safes {
    type State<'a> = Safe<'a>;
    type PrivateState<'a> = ValueEmpty;
    type ProviderMetaState<'a> = ValueEmpty;

    fn schema(&self, _: &mut Diagnostics) -> Option<Schema> {
        let attributes = map! {
            "id" => attribute(AttributeType::String, AttributeConstraint::Computed),
            "label" => attribute(AttributeType::String, AttributeConstraint::Required),
            "pin" => hidden(AttributeConstraint::Optional),
            "key" => hidden(AttributeConstraint::Computed),
        };
        Some(Schema { version: 1, block: Block { version: 1, attributes, ..Default::default() } })
    }

    async fn validate<'a>(&self, diags: &mut Diagnostics, config: Safe<'a>) -> Option<()> {
        if let Some(pin) = config.pin.as_deref_option().filter(|pin| pin.len() < SHORT) {
            // As careless as providers are.
            diags.warning("a short pin", format!("{pin} is soon guessed"), AttributePath::new("pin"));
        }
        Some(())
    }

    async fn read<'a>(
        &self,
        _: &mut Diagnostics,
        mut state: Safe<'a>,
        private: ValueEmpty,
        _: ValueEmpty,
    ) -> Option<(Safe<'a>, ValueEmpty)> {
        if let Ok(content) = std::fs::read_to_string(self.0.path(state.id.as_deref_option()?)) {
            let mut lines = content.lines().map(|line| match line {
                "" => ValueString::Null,
                line => ValueString::Value(Cow::Owned(line.to_owned())),
            });
            state.label = lines.next()?;
            state.pin = lines.next()?;
            state.key = lines.next()?;
        }
        Some((state, private))
    }

    async fn plan_create<'a>(
        &self,
        _: &mut Diagnostics,
        proposed: Safe<'a>,
        _: Safe<'a>,
        _: ValueEmpty,
    ) -> Option<(Safe<'a>, ValueEmpty)> {
        let planned = Safe { id: ValueString::Unknown, key: ValueString::Unknown, ..proposed };
        Some((planned, Default::default()))
    }

    async fn plan_update<'a>(
        &self,
        _: &mut Diagnostics,
        _: Safe<'a>,
        proposed: Safe<'a>,
        _: Safe<'a>,
        private: ValueEmpty,
        _: ValueEmpty,
    ) -> Option<(Safe<'a>, ValueEmpty, Vec<AttributePath>)> {
        Some((proposed, private, vec![]))
    }

    async fn plan_destroy<'a>(
        &self,
        _: &mut Diagnostics,
        _: Safe<'a>,
        private: ValueEmpty,
        _: ValueEmpty,
    ) -> Option<ValueEmpty> {
        Some(private)
    }

    async fn create<'a>(
        &self,
        _: &mut Diagnostics,
        mut planned: Safe<'a>,
        _: Safe<'a>,
        private: ValueEmpty,
        _: ValueEmpty,
    ) -> Option<(Safe<'a>, ValueEmpty)> {
        let id = format!("safe-{}", planned.label.as_deref_option()?);
        planned.key = ValueString::Value(Cow::Owned(format!("key-of-{id}")));
        planned.id = ValueString::Value(Cow::Owned(id));
        self.write(&planned)?;
        Some((planned, private))
    }

    async fn update<'a>(
        &self,
        _: &mut Diagnostics,
        _: Safe<'a>,
        planned: Safe<'a>,
        _: Safe<'a>,
        private: ValueEmpty,
        _: ValueEmpty,
    ) -> Option<(Safe<'a>, ValueEmpty)> {
        self.write(&planned)?;
        Some((planned, private))
    }

    async fn destroy<'a>(
        &self,
        diags: &mut Diagnostics,
        state: Safe<'a>,
        _: ValueEmpty,
        _: ValueEmpty,
    ) -> Option<()> {
        let path = self.0.path(state.id.as_deref_option()?);
        if path.with_extension("locked").exists() {
            diags.root_error_short("the safe is locked");
            return None;
        }
        std::fs::remove_file(path).ok();
        Some(())
    }
}

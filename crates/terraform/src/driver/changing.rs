//! Making, changing and destroying: what asks the provider for a change, and keeps what came of it.

use objects::meta;
use provision::{Driver, Failure, Intent, Made, Observed, OperationType, Plan, Updated};

use super::kept::Kept;
use super::wanted::Secrets;
use super::{Looking, Note, Terraform, outputs, telling};
use crate::plugin::{Applied, Planned, State};
use crate::protocol::Call;
use crate::value::Value;

impl Terraform {
    /// Makes a resource. What comes of it is kept before anything else is done.
    pub(super) async fn make(
        &self,
        subject: &Looking<'_>,
        intent: &Intent,
        plan: &Plan<Note>,
    ) -> Result<Made, Failure> {
        let connection = subject.connection;
        // What replaces another, and is made before that goes, was planned as a change of it.
        let anew = match plan.note.state.value.is_null() {
            true => None,
            false => Some(Driver::plan(self, subject, None).await?),
        };
        let note = &anew.as_ref().unwrap_or(plan).note;
        let Some(planned) = &note.planned else { return Err(Failure::recoverable("nothing was planned")) };
        let before = self.load(subject).await?;
        let deposed = intent.deposed.as_ref().and(before.deposed.or(before.resource));
        // From here on it is not known whether there is a resource, until its state is kept.
        let sought = Self::sought(subject, &note.secrets, planned).await?;
        let token = intent.token.clone();
        let creating =
            Kept { creating: Some(token), sought, deposed, outputs: before.outputs, ..Kept::default() };
        self.keep(subject, &creating).await?;
        let none = State::none();
        let purpose = OperationType::Create;
        let applied = self.apply(subject, &none, planned, &note.config, &note.secrets, purpose).await?;
        let failure = connection.refused(&applied, &note.secrets);
        let Some(state) = applied.state else {
            self.keep(subject, &creating.restored()).await?;
            return Err(
                failure.unwrap_or_else(|| Failure::recoverable("the provider says that it made nothing"))
            );
        };
        let token = Some(intent.token.clone());
        let settled = self.settle(subject, &creating, &state, token, failure.is_some(), &note.secrets).await;
        let kept = match settled {
            Ok(kept) => kept,
            // Made, and not kept: the intent stays open, and the token in the Secret says so.
            Err(failure) => return Err(Failure { ambiguous: true, ..failure }),
        };
        if failure.is_none() {
            self.compare(subject, kept, planned, &state).await?;
        }
        Ok(Made { record: telling::record(subject, &state), failure })
    }

    pub(super) async fn change(
        &self,
        subject: &Looking<'_>,
        observed: &Observed<Note>,
        plan: &Plan<Note>,
    ) -> Result<Updated<Note>, Failure> {
        let connection = subject.connection;
        let Some(planned) = &plan.note.planned else {
            return Err(Failure::recoverable("nothing was planned"));
        };
        let (prior, secrets) = (&observed.note.state, &plan.note.secrets);
        let purpose = OperationType::Update;
        let applied = self.apply(subject, prior, planned, &plan.note.config, secrets, purpose).await?;
        let failure = connection.refused(&applied, secrets);
        // After an error without a state, what was there is still there.
        let Some(state) = applied.state else {
            return Err(failure.unwrap_or_else(|| Failure::recoverable("the provider says that it is gone")));
        };
        let kept = self.settle(subject, &observed.note.kept, &state, None, false, secrets).await?;
        if let Some(failure) = failure {
            return Err(failure);
        }
        let kept = self.compare(subject, kept, planned, &state).await?;
        let kept = self.output(subject, kept, &state).await?;
        let record = telling::record_naming(subject, &state, secrets);
        let secrets = secrets.clone();
        let note = Note { state, kept, config: Value::Null, planned: None, secrets, ours: true };
        Ok(Updated { record, observed: Some(Self::observed(subject, note)), after: None })
    }

    /// Destroys a resource, with what an interrupted replacement left behind.
    pub(super) async fn unmake(&self, subject: &Looking<'_>, note: &Note) -> Result<(), Failure> {
        self.destroy_deposed(subject, &note.kept, &note.secrets).await?;
        self.destroy(subject, &note.state, &note.secrets).await?;
        telling::forget_secrets(subject, &note.secrets).await?;
        if meta::is_deleting(subject.object) {
            outputs::withdraw(subject, note.kept.outputs.iter()).await?;
        }
        self.forget(subject).await
    }

    /// Has the provider destroy what a state is of.
    pub(super) async fn destroy(
        &self,
        subject: &Looking<'_>,
        prior: &State,
        secrets: &Secrets,
    ) -> Result<(), Failure> {
        let connection = subject.connection;
        let mut planned = Planned {
            state: Value::Null,
            private: prior.private.clone(),
            identity: None,
            replace: Vec::new(),
            lenient: false,
            warnings: Default::default(),
        };
        if connection.lease.catalogue().capabilities.plan_destroy {
            let plan = connection.lease.plan(&connection.type_name, prior, &Value::Null, &Value::Null);
            let (purpose, call) = (OperationType::Delete, Call::PlanResourceChange);
            let asked = Self::call(subject, purpose, call, secrets, plan).await?;
            connection.warned(subject, &asked.warnings, secrets);
            planned.private = asked.private;
        }
        let purpose = OperationType::Delete;
        let applied = self.apply(subject, prior, &planned, &Value::Null, secrets, purpose).await?;
        connection.refused(&applied, secrets).map_or(Ok(()), Err)
    }

    /// Deletes what a replacement left behind, if there is any.
    pub(super) async fn destroy_deposed(
        &self,
        subject: &Looking<'_>,
        kept: &Kept,
        secrets: &Secrets,
    ) -> Result<(), Failure> {
        let Some(deposed) = &kept.deposed else { return Ok(()) };
        let connection = subject.connection;
        let state = self.state_of(subject, secrets, deposed).await?;
        let read = connection.lease.read(&connection.type_name, &state);
        if let Some(state) = Self::ask(subject, Call::ReadResource, secrets, read).await? {
            self.destroy(subject, &state, secrets).await?;
        }
        self.keep(subject, &Kept { deposed: None, ..kept.clone() }).await
    }

    /// Asks for a change, and keeps what came of it whatever else is wrong.
    pub(super) async fn apply(
        &self,
        subject: &Looking<'_>,
        prior: &State,
        planned: &Planned,
        config: &Value,
        secrets: &Secrets,
        purpose: OperationType,
    ) -> Result<Applied, Failure> {
        let connection = subject.connection;
        let time = telling::timeout(subject.object, purpose);
        let apply = connection.lease.apply(&connection.type_name, prior, planned, config, time);
        let applied = Self::call(subject, purpose, Call::ApplyResourceChange, secrets, apply).await?;
        connection.warned(subject, &applied.diagnostics, secrets);
        Ok(applied)
    }
}

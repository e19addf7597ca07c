//! The JSON Schemas of types whose JSON form is not that of their fields.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

use crate::{
    Author, Command, CommandId, CommitId, Fence, Json, Kind, Limit, Message, NodeName, Note,
    Outcome, Retry, TaskId, TaskState, TransactionId, Unique,
    record::{CommandRecord, OutcomeRecord, StateRecord},
    terms::{LimitForm, UniqueForm},
    wire::{Line, LineForm, MessageForm},
};

/// Gives types a schema without its own name.
macro_rules! inline {
    ($($name:ident: $schema:expr;)*) => {$(
        impl JsonSchema for $name {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                $schema
            }
        }
    )*};
}

inline! {
    TaskId: json_schema!({"type": "string"});
    Kind: json_schema!({"type": "string"});
    NodeName: json_schema!({"type": "string"});
    CommandId: json_schema!({"type": "string"});
    CommitId: json_schema!({"type": "string"});
    Author: json_schema!({"type": "string"});
    Note: json_schema!({"type": "string"});
    TransactionId: json_schema!({"type": "string"});
    Fence: json_schema!({"type": "integer", "minimum": 0});
    Json: true.into();
}

/// Gives types the schemas of their JSON forms, under their own names.
macro_rules! of_form {
    ($($name:ident: $form:ty;)*) => {$(
        impl JsonSchema for $name {
            fn schema_name() -> Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(generator: &mut SchemaGenerator) -> Schema {
                <$form>::json_schema(generator)
            }
        }
    )*};
}

of_form! {
    Command: CommandRecord;
    Outcome: OutcomeRecord;
    Limit: LimitForm;
    Unique: UniqueForm;
    Line: LineForm;
    Message: MessageForm;
    TaskState: StateRecord;
}

/// A retry policy, or a short form of one.
#[derive(JsonSchema)]
#[schemars(untagged)]
#[expect(dead_code, reason = "only its schema is used")]
pub(crate) enum RetryForm {
    /// A number of attempts.
    Attempts(u32),
    /// The name of a policy.
    Name(String),
    /// A policy with its numbers.
    Policy(Retry),
}

/// The name of a command: every message but `error`.
#[derive(JsonSchema)]
#[schemars(rename_all = "lowercase")]
#[expect(dead_code, reason = "only its schema is used")]
pub(crate) enum CommandName {
    /// Wakes a sleeping task, resumes a paused one.
    Run,
    /// Sleeps until a time.
    Sleep,
    /// Pauses until the next command.
    Pause,
    /// Releases the claim.
    Release,
    /// Persists the data of a running handler.
    Checkpoint,
    /// Ends the task as completed.
    Complete,
    /// Ends the task for good.
    Kill,
    /// Delivers a value to the handler, which replies to it.
    Signal,
}

/// The name of a message: every one that a handler may return.
#[derive(JsonSchema)]
#[schemars(rename_all = "lowercase")]
#[expect(dead_code, reason = "only its schema is used")]
pub(crate) enum MessageName {
    /// Run the handler again.
    Run,
    /// Sleep until a time, or wait for other tasks.
    Sleep,
    /// Wait for a command.
    Pause,
    /// Release the claim, so that another node continues.
    Release,
    /// Persist the data, and run the handler again.
    Checkpoint,
    /// The attempt failed.
    Error,
    /// The task is done.
    Complete,
    /// End the task for good.
    Kill,
}

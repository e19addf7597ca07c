//! `windlass wait-signal`: a command of a task waits for a signal, and prints its payload.

use windlass::Json;

use crate::{
    exec::socket::ask::{AskError, WaitSignal, Waited, wait_signal},
    exit::{Exit, Failure},
    global::Global,
    input, parse,
};

/// The signal to wait for.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Run it in a command of a task. It asks the worker that has started the command, so it needs no
store.

If the signal is there, it prints the payload at once. Otherwise the worker ends the whole command
(SIGTERM, after the grace SIGKILL), and the task waits without a slot. The signal starts the command
again, from the top: the lines before wait-signal run again, so make them repeatable, or keep their
progress in WINDLASS_STATE_DIR. The second wait-signal with a name gets the second signal of it.

The sender gets the reply when the command has ended with success.

The exit code is 0 with the payload, and 5 when the time of --until has passed without the signal.
Other codes are errors: a script must not take them for either.

Examples:
  windlass wait-signal approve
  windlass wait-signal approve --text 'Deploy version 1.4?' --until 3d --reply '\"deployed\"'
  windlass wait-signal answer --schema '{\"type\":\"string\"}' --raw")]
pub(crate) struct Args {
    /// The name of the signal
    #[arg(value_name = "NAME")]
    name: String,

    /// Set what the person is asked: up to 1,000 characters
    #[arg(long, value_name = "TEXT")]
    text: Option<String>,

    /// Set the JSON Schema of the payload, from which clients make a form: JSON, @FILE, or - for
    /// standard input
    #[arg(long, value_name = "JSON")]
    schema: Option<String>,

    /// End the wait at this time (RFC 3339), or after this long from the first run that waits
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    until: Option<String>,

    /// Reply this to the sender when the command has ended with success: JSON, @FILE, or - for standard
    /// input [default: null]
    #[arg(long, value_name = "JSON")]
    reply: Option<String>,

    /// Print a payload that is text without quotes
    #[arg(long)]
    raw: bool,
}

/// Waits, and prints the payload.
pub(crate) async fn execute(args: Args, global: &Global) -> Result<Exit, Failure> {
    let mut wait = WaitSignal::new(args.name);
    wait.text = args.text;
    wait.schema = args
        .schema
        .map(|text| input::json("schema", &text))
        .transpose()?;
    wait.reply = args
        .reply
        .map(|text| input::json("reply", &text))
        .transpose()?;
    wait.until = args.until.map(|text| match parse::duration(&text) {
        Ok(_) => format!("in {text}"),
        // The worker reads it, and names what is wrong.
        Err(_) => text,
    });
    let out = global.out();
    match wait_signal(&wait).await? {
        Waited::Signal(payload) => {
            match text_of(&payload).filter(|_| args.raw) {
                Some(text) => out.line(text)?,
                None => out.line(payload)?,
            }
            Ok(Exit::Ok)
        }
        Waited::Expired => {
            let name = &wait.name;
            out.note(format!(
                "the time to wait for the signal '{name}' has passed"
            ));
            Ok(Exit::Timeout)
        }
    }
}

fn text_of(payload: &Json) -> Option<String> {
    payload.get("payload").ok()
}

impl From<AskError> for Failure {
    fn from(error: AskError) -> Self {
        let text = error.to_string();
        match error {
            AskError::Outside => Self::Usage(format!(
                "wait-signal is for commands of tasks: {text}; run it in one, such as \
                 `windlass submit --shell 'windlass wait-signal approve && ./deploy'`"
            )),
            AskError::Invalid(invalid) => invalid.into(),
            AskError::Refused(_) => Self::No(text),
            _ => Self::Store(text),
        }
    }
}

//! `windlass token`: the tokens with which programs call a server.

use std::time::Duration;

use clap::Subcommand;
use windlass::Client;
use windlass_server::{NewToken, Role, Scope, Sessions, Token, TokenForm, Tokens};

use crate::{
    exit::{Exit, Failure},
    global::Global,
    output::Output,
    parse::{duration, label},
    view::text,
};

/// What to do with tokens.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
A token is kept in the store, as a hash: every server of the store knows it. Who can write to the store can always make one.

Examples:
  export TOKEN=$(windlass token new ci --role operate --kind 'build/*' --expires-in 90d)
  windlass token list
  windlass token rotate ci --overlap 1d
  windlass token revoke ci")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Ask,
}

#[derive(Debug, Subcommand)]
enum Ask {
    /// Make a token, and print its secret, which nothing shows again
    #[command(after_help = "\
Examples:
  windlass token new me --role operate
  windlass token new board --role read --kind mail --label team=billing
  windlass token new mailer --role work --kind mail")]
    New(New),
    /// List the tokens, without their secrets
    #[command(after_help = "Examples:\n  windlass token list\n  windlass token list -o json")]
    List,
    /// Give a token another secret, and print it; the one before ends at once, or after --overlap
    #[command(after_help = "Examples:\n  windlass token rotate ci --overlap 1d")]
    Rotate(Rotate),
    /// Print a link that opens a session in a browser, once, within 5 minutes
    #[command(after_help = "\
What is done in the session has the user who runs this command as its author.

Examples:
  windlass token link
  windlass token link --url http://localhost:7480
  windlass token link --role read --url https://tasks.example.com")]
    Link(LinkArgs),
    /// Revoke a token: every server refuses it within a second
    #[command(after_help = "Examples:\n  windlass token revoke ci")]
    Revoke(Which),
}

#[derive(Debug, clap::Args)]
struct New {
    /// The name of the token, which the history shows with what it does
    #[arg(value_name = "NAME")]
    name: String,

    /// What its holder may do: read; operate, which submits and commands tasks too; work, which runs tasks as a worker and does
    /// nothing else; admin, which does everything
    #[arg(long, value_name = "ROLE")]
    role: Role,

    /// Only tasks of this kind; 'inbox/*' for every kind that begins with inbox/. May be given more than once. A worker may
    /// register for these kinds only
    #[arg(long = "kind", value_name = "KIND")]
    kinds: Vec<String>,

    /// Only tasks with this label. May be given more than once. A worker has to have each of these labels
    #[arg(long = "label", value_name = "NAME=VALUE", value_parser = label)]
    labels: Vec<(String, String)>,

    /// Refuse a submit by its holder when there are so many live tasks of its kinds, also of other callers. Needs --kind, and no
    /// --label
    #[arg(long, value_name = "NUMBER")]
    max_tasks: Option<u64>,

    /// Let it expire after this time: 12h, 90d
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    expires_in: Option<Duration>,
}

#[derive(Debug, clap::Args)]
struct Rotate {
    /// The token
    #[arg(value_name = "NAME")]
    name: String,

    /// Let the secret before it be valid for this time: 1h, 1d. One from an earlier rotation ends at once
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "0s")]
    overlap: Duration,
}

#[derive(Debug, clap::Args)]
struct LinkArgs {
    /// What the session may do: read, operate or admin
    #[arg(long, value_name = "ROLE", default_value = "admin")]
    role: Role,

    /// The URL of the server; by default that of `windlass serve` without --listen, http://localhost:7474. A name of this
    /// machine itself is replaced by one that no server of another user has
    #[arg(long, value_name = "URL", env = "WINDLASS_URL")]
    url: Option<String>,
}

#[derive(Debug, clap::Args)]
struct Which {
    /// The token
    #[arg(value_name = "NAME")]
    name: String,
}

/// Carries out the command.
pub(crate) async fn execute(args: Args, global: &Global) -> Result<Exit, Failure> {
    let out = global.out();
    match args.command {
        Ask::New(new) => {
            let client = global.lasting().await?;
            let scope = Scope::new(new.kinds, new.labels)?;
            let mut token = NewToken::new(new.name, new.role).scope(scope);
            if let Some(most) = new.max_tasks {
                token = token.max_tasks(most);
            }
            if let Some(time) = new.expires_in {
                token = token.valid_for(time);
            }
            let by = Some(client.author().clone());
            let (token, secret) = Tokens::new(client.store()).make(token, by).await?;
            print(&client, &out, &token, &secret)
        }
        Ask::List => list(&global.reading().await?, &out).await,
        Ask::Rotate(rotate) => {
            let client = global.existing().await?;
            let tokens = Tokens::new(client.store());
            let by = Some(client.author().clone());
            let (token, secret) = tokens.rotate(&rotate.name, rotate.overlap, by).await?;
            print(&client, &out, &token, &secret)
        }
        Ask::Link(ask) => {
            let client = global.existing().await?;
            link(&client, &out, &ask).await
        }
        Ask::Revoke(which) => {
            let client = global.existing().await?;
            let by = Some(client.author().clone());
            let tokens = Tokens::new(client.store());
            match tokens.revoke(&which.name, by).await? {
                true => out.note(format!("token '{}' is revoked", which.name)),
                false => {
                    let text = format!(
                        "token '{}' does not exist; `windlass token list` shows those that do",
                        which.name
                    );
                    return Err(Failure::No(text));
                }
            }
            Ok(Exit::Ok)
        }
    }
}

/// The URL of a server that was started without --listen.
const DEFAULT_URL: &str = "http://localhost:7474";

/// Prints a link alone, so that a shell can take it.
async fn link(client: &Client, out: &Output, ask: &LinkArgs) -> Result<Exit, Failure> {
    let url = ask.url.as_deref().unwrap_or(DEFAULT_URL);
    let split = url.split_once("://").map(|(scheme, rest)| {
        let (at, base) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        (scheme, at, base.trim_end_matches('/'))
    });
    let is_url = |(scheme, at, _): &(&str, &str, &str)| {
        ["http", "https"].contains(scheme) && !at.is_empty() && !at.contains('@')
    };
    let Some((scheme, at, base)) = split.filter(is_url) else {
        let text = format!("--url: '{url}' is not a URL such as https://tasks.example.com/base");
        return Err(Failure::Usage(text));
    };
    let link = Sessions::new(client.store())
        .link(client.author().clone(), ask.role)
        .await?;
    let own = ["localhost", "127.0.0.1", "[::1]"];
    let is_own = |host: &&&str| {
        at.strip_prefix(**host)
            .is_some_and(|port| port.is_empty() || port.starts_with(':'))
    };
    let at = match own.iter().find(is_own) {
        Some(host) => format!("{}{}", link.host, at.strip_prefix(host).unwrap_or_default()),
        None => at.to_owned(),
    };
    out.line(format!("{scheme}://{at}{base}{}", link.path))?;
    if ask.url.is_none() {
        out.note(
            "note: the link is for a server at port 7474, the default of `windlass serve`; for `serve --listen` give --url \
             with its address",
        );
    }
    Ok(Exit::Ok)
}

/// Prints the secret alone, so that a shell can take it.
fn print(client: &Client, out: &Output, token: &Token, secret: &str) -> Result<Exit, Failure> {
    if out.is_json() {
        let mut form = TokenForm::new(token, client.now());
        form.secret = Some(secret);
        out.json(&form)?;
        return Ok(Exit::Ok);
    }
    out.note(format!(
        "token '{}' ({}): this is its secret; keep it, nothing shows it again",
        token.name, token.role
    ));
    out.line(secret)?;
    Ok(Exit::Ok)
}

async fn list(client: &Client, out: &Output) -> Result<Exit, Failure> {
    let tokens = Tokens::new(client.store()).list().await?;
    let now = client.now();
    if out.is_json() {
        for token in &tokens {
            out.json(&TokenForm::new(token, now))?;
        }
        return Ok(Exit::Ok);
    }
    if tokens.is_empty() {
        out.note("there are no tokens; `windlass token new NAME --role ROLE` makes one");
    }
    let rows = tokens.iter().map(|token| {
        let labels = token.scope.labels.iter();
        let labels = labels.map(|(name, value)| format!("{name}={value}"));
        let scope: Vec<String> = token.scope.kinds.iter().cloned().chain(labels).collect();
        let expires = match token.expires_at {
            Some(at) if at <= now => "expired".to_owned(),
            Some(at) => format!("{at:.0}"),
            None => "never".to_owned(),
        };
        vec![
            text(&token.name),
            text(token.role),
            text(if scope.is_empty() {
                "everything".to_owned()
            } else {
                scope.join(" ")
            }),
            text(expires),
            text(token.secrets_at(now)),
            text(token.made_by.as_ref().map_or("", |by| by.as_str())),
        ]
    });
    let header = ["NAME", "ROLE", "SCOPE", "EXPIRES", "SECRETS", "MADE BY"];
    out.narrow_table(&header, &["MADE BY", "SECRETS"], rows.collect())?;
    Ok(Exit::Ok)
}

//! [`Attributes`]: what `#[job(…)]` says about a job.

use proc_macro2::Span;
use syn::{
    Attribute, Error, Expr, ExprLit, Ident, Lit, LitInt, LitStr, Path, Result, Token, Type,
    ext::IdentExt,
    parse::{Parse, ParseStream},
};

/// The names of the values, as errors list them.
const NAMES: &str = "kind, data, output, data_version, migrate, retry, limits, crate";

/// What the attributes say about a job.
#[derive(Default)]
pub(crate) struct Attributes {
    pub(crate) kind: Option<LitStr>,
    pub(crate) data: Option<Type>,
    pub(crate) output: Option<Type>,
    pub(crate) data_version: Option<LitInt>,
    pub(crate) migrate: Option<Path>,
    pub(crate) retry: Option<Expr>,
    pub(crate) limits: Option<Expr>,
    /// The path of the library: `::windlass` by default.
    pub(crate) library: Option<Path>,
}

impl Attributes {
    /// Reads every `#[job(…)]` of a type.
    pub(crate) fn of(attributes: &[Attribute]) -> Result<Self> {
        let mut all = Self::default();
        let of_jobs = attributes.iter().filter(|one| one.path().is_ident("job"));
        for attribute in of_jobs {
            attribute.parse_args_with(|input: ParseStream<'_>| all.read(input))?;
        }
        all.check()?;
        Ok(all)
    }

    /// Reads the values of one attribute.
    fn read(&mut self, input: ParseStream<'_>) -> Result<()> {
        while !input.is_empty() {
            let name = input.call(Ident::parse_any)?;
            match name.to_string().as_str() {
                "kind" => set(&mut self.kind, &name, text(&name, input)?)?,
                "data" => set(&mut self.data, &name, ty(&name, input)?)?,
                "output" => set(&mut self.output, &name, ty(&name, input)?)?,
                "data_version" => {
                    let like = "a number: data_version = 2";
                    set(&mut self.data_version, &name, value(&name, input, like)?)?;
                }
                "migrate" => {
                    let like = "the path of a function: migrate = migrate_poll";
                    set(&mut self.migrate, &name, value(&name, input, like)?)?;
                }
                "retry" => {
                    let like = "a policy: retry = Retry::exponential(5, Duration::from_secs(60))";
                    set(&mut self.retry, &name, code(&name, input, like)?)?;
                }
                "limits" => {
                    let like = r#"an array of limits: limits = [Limit::at_once("api", 4)?]"#;
                    set(&mut self.limits, &name, code(&name, input, like)?)?;
                }
                "crate" => {
                    let like = "the path of the library: crate = my_crate::windlass";
                    set(&mut self.library, &name, value(&name, input, like)?)?;
                }
                other => {
                    let what =
                        format!("a job has no attribute `{other}`; the attributes are {NAMES}");
                    return Err(Error::new(name.span(), what));
                }
            }
            if !input.is_empty() {
                input.parse::<Token![,]>()?;
            }
        }
        Ok(())
    }

    /// Checks what no single value shows.
    fn check(&self) -> Result<()> {
        if let Some(kind) = self.kind.as_ref().filter(|kind| kind.value().is_empty()) {
            let what =
                "`kind` is empty; give the name under which tasks are stored: kind = \"countdown\"";
            return Err(Error::new(kind.span(), what));
        }
        let version = self.data_version.as_ref();
        let number = version.map(LitInt::base10_parse::<u32>).transpose()?;
        if let Some(version) = version.filter(|_| number == Some(0)) {
            let what = "`data_version` is 0; the first version of the data is 1";
            return Err(Error::new(version.span(), what));
        }
        match &self.migrate {
            Some(migrate) if number.is_none_or(|number| number < 2) => {
                let what = "`migrate` converts data of older versions; give a `data_version` of 2 or more with it";
                Err(Error::new_spanned(migrate, what))
            }
            _ => Ok(()),
        }
    }

    /// Returns the error of a type without a kind.
    pub(crate) fn no_kind(span: Span) -> Error {
        let what = "the job has no kind; give the name under which tasks are stored: #[job(kind = \"countdown\")]";
        Error::new(span, what)
    }
}

/// Sets a value that may be given once.
fn set<T>(place: &mut Option<T>, name: &Ident, value: T) -> Result<()> {
    if place.is_some() {
        let what = format!("`{name}` is given twice; give it once");
        return Err(Error::new(name.span(), what));
    }
    *place = Some(value);
    Ok(())
}

/// Reads `=` and a value. The error says what the value is like.
fn value<T: Parse>(name: &Ident, input: ParseStream<'_>, like: &str) -> Result<T> {
    let wrong = |error: Error| Error::new(error.span(), format!("`{name}` takes {like}"));
    input.parse::<Token![=]>().map_err(|_| {
        let what = format!("`{name}` takes {like}");
        Error::new(name.span(), what)
    })?;
    input.parse().map_err(wrong)
}

fn text(name: &Ident, input: ParseStream<'_>) -> Result<LitStr> {
    value(name, input, "a text: kind = \"countdown\"")
}

fn ty(name: &Ident, input: ParseStream<'_>) -> Result<Type> {
    let like = format!("a type, without quotes: {name} = u32");
    value(name, input, &like)
}

/// Reads Rust code. A text is refused: it is code in quotes, as other macros have it.
fn code(name: &Ident, input: ParseStream<'_>, like: &str) -> Result<Expr> {
    let expr = value(name, input, like)?;
    match &expr {
        Expr::Lit(ExprLit {
            lit: Lit::Str(text),
            ..
        }) => {
            let what = format!("`{name}` takes {like}, without quotes");
            Err(Error::new(text.span(), what))
        }
        _ => Ok(expr),
    }
}

//! [`Surface`]: reads the public items of the sources.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use quote::ToTokens;
use syn::{Attribute, Fields, ImplItem, Item, ItemImpl, TraitItem, Type, UseTree, Visibility};

use super::print::text;

/// The public items of a library, by the public module that leads to them.
#[derive(Default)]
pub(super) struct Surface {
    modules: BTreeMap<String, BTreeSet<String>>,
    /// The names of the types and traits that are public, and of those that are not.
    public: BTreeSet<String>,
    private: BTreeSet<String>,
    impls: Vec<(String, ItemImpl)>,
}

/// A module: its file, the folder of the modules in it, and the public module that leads to its items.
struct Place {
    folder: PathBuf,
    shown: String,
}

impl Surface {
    /// Reads a library from its root file.
    pub(super) fn library(&mut self, name: &str, file: &Path) -> Result<(), String> {
        let folder = file.parent().unwrap_or(file).to_path_buf();
        let shown = name.to_owned();
        self.file(file, &Place { folder, shown })?;
        for (module, item) in std::mem::take(&mut self.impls) {
            self.implementation(&module, &item);
        }
        Ok(())
    }

    pub(super) fn into_modules(self) -> BTreeMap<String, BTreeSet<String>> {
        self.modules
    }

    fn file(&mut self, file: &Path, place: &Place) -> Result<(), String> {
        let name = file.display();
        let source = fs::read_to_string(file);
        let source = source.map_err(|error| format!("could not read {name}: {error}"))?;
        let parsed = syn::parse_file(&source);
        let parsed = parsed.map_err(|error| format!("could not parse {name}: {error}"))?;
        self.items(parsed.items, place)
    }

    fn items(&mut self, items: Vec<Item>, place: &Place) -> Result<(), String> {
        items
            .into_iter()
            .try_for_each(|item| self.item(item, place))
    }

    fn item(&mut self, item: Item, place: &Place) -> Result<(), String> {
        let module = place.shown.as_str();
        match item {
            Item::Mod(item) if !is_of_tests(&item.attrs) => {
                let name = item.ident.to_string();
                let is_public = is_public(&item.vis);
                if is_public {
                    self.add(module, format!("pub mod {name}"));
                }
                let shown = match is_public {
                    true => format!("{module}::{name}"),
                    false => module.to_owned(),
                };
                let folder = place.folder.join(&name);
                let inner = Place { folder, shown };
                if let Some((_, items)) = item.content {
                    return self.items(items, &inner);
                }
                let file = place.folder.join(format!("{name}.rs"));
                match file.is_file() {
                    true => self.file(&file, &inner)?,
                    false => self.file(&inner.folder.join("mod.rs"), &inner)?,
                }
            }
            Item::Struct(item) if !is_of_tests(&item.attrs) => {
                let (name, is_public) = (item.ident.to_string(), is_public(&item.vis));
                self.name(&name, is_public);
                if is_public {
                    let (of, generics) = (marks(&item.attrs), text(&item.generics));
                    self.add(module, format!("pub struct {name}{generics}{of}"));
                    self.fields(module, &name, &item.fields, true);
                }
            }
            Item::Enum(item) if !is_of_tests(&item.attrs) => {
                let (name, is_public) = (item.ident.to_string(), is_public(&item.vis));
                self.name(&name, is_public);
                if is_public {
                    let (of, generics) = (marks(&item.attrs), text(&item.generics));
                    self.add(module, format!("pub enum {name}{generics}{of}"));
                    for variant in &item.variants {
                        let (variant, fields) = (&variant.ident, shape(&variant.fields));
                        self.add(module, format!("{name}::{variant}{fields}"));
                    }
                }
            }
            Item::Trait(item) if !is_of_tests(&item.attrs) => {
                let (name, is_public) = (item.ident.to_string(), is_public(&item.vis));
                self.name(&name, is_public);
                if is_public {
                    let (generics, bounds) = (text(&item.generics), text(&item.supertraits));
                    let bounds = match bounds.as_str() {
                        "" => String::new(),
                        bounds => format!(": {bounds}"),
                    };
                    self.add(module, format!("pub trait {name}{generics}{bounds}"));
                    for item in item.items {
                        self.add(module, format!("trait {name}: {}", of_trait(item)));
                    }
                }
            }
            Item::Impl(item) if !is_of_tests(&item.attrs) => {
                self.impls.push((module.to_owned(), item));
            }
            Item::Fn(item) if is_public(&item.vis) && !is_of_tests(&item.attrs) => {
                self.add(module, text_of(&item.vis, &item.sig));
            }
            Item::Use(item) if is_public(&item.vis) && !is_of_tests(&item.attrs) => {
                self.uses(module, "pub use ", &item.tree);
            }
            Item::Const(item) if is_public(&item.vis) && !is_of_tests(&item.attrs) => {
                let (name, of) = (&item.ident, text(&item.ty));
                self.add(module, format!("pub const {name}: {of}"));
            }
            Item::Static(item) if is_public(&item.vis) && !is_of_tests(&item.attrs) => {
                let (name, of) = (&item.ident, text(&item.ty));
                self.add(module, format!("pub static {name}: {of}"));
            }
            Item::Type(item) if is_public(&item.vis) && !is_of_tests(&item.attrs) => {
                let (name, generics, of) = (&item.ident, text(&item.generics), text(&item.ty));
                self.add(module, format!("pub type {name}{generics} = {of}"));
            }
            Item::Macro(item) if item.attrs.iter().any(|a| a.path().is_ident("macro_export")) => {
                if let Some(name) = item.ident {
                    self.add(module, format!("pub macro {name}"));
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Adds a line for each name of a `use`.
    fn uses(&mut self, module: &str, before: &str, tree: &UseTree) {
        let line = match tree {
            UseTree::Path(path) => {
                let before = format!("{before}{}::", path.ident);
                return self.uses(module, &before, &path.tree);
            }
            UseTree::Group(group) => {
                for tree in &group.items {
                    self.uses(module, before, tree);
                }
                return;
            }
            UseTree::Name(name) => format!("{before}{}", name.ident),
            UseTree::Rename(name) => format!("{before}{} as {}", name.ident, name.rename),
            UseTree::Glob(_) => format!("{before}*"),
        };
        self.add(module, line);
    }

    fn name(&mut self, name: &str, is_public: bool) {
        match is_public {
            true => self.public.insert(name.to_owned()),
            false => self.private.insert(name.to_owned()),
        };
    }

    fn add(&mut self, module: &str, line: impl Into<String>) {
        let lines = self.modules.entry(module.to_owned()).or_default();
        lines.insert(line.into());
    }

    fn fields(&mut self, module: &str, of: &str, fields: &Fields, only_public: bool) {
        for (index, field) in fields.iter().enumerate() {
            if only_public && !is_public(&field.vis) {
                continue;
            }
            let name = field.ident.as_ref();
            let name = name.map_or_else(|| index.to_string(), ToString::to_string);
            self.add(module, format!("{of}.{name}: {}", text(&field.ty)));
        }
    }

    /// Adds the public methods of a type, or that it implements a trait. Types and traits that are not public are left
    /// out; a type of another crate and a parameter are shown.
    fn implementation(&mut self, module: &str, item: &ItemImpl) {
        let of = last_name(&item.self_ty);
        if self.is_private(&of) {
            return;
        }
        let (generics, ty) = (text(&item.generics), text(&item.self_ty));
        let bounds = item.generics.where_clause.as_ref();
        let bounds = bounds.map_or_else(String::new, |bounds| format!(" {}", text(bounds)));
        if let Some((not, of_trait, _)) = &item.trait_ {
            let name = of_trait.segments.last();
            if name.is_some_and(|name| self.is_private(&name.ident.to_string())) {
                return;
            }
            let not = not.as_ref().map_or("", |_| "!");
            let of_trait = text(of_trait);
            self.add(
                module,
                format!("impl{generics} {not}{of_trait} for {ty}{bounds}"),
            );
            return;
        }
        for member in &item.items {
            let line = match member {
                ImplItem::Fn(one) if is_public(&one.vis) && !is_of_tests(&one.attrs) => {
                    text_of(&one.vis, &one.sig)
                }
                ImplItem::Const(one) if is_public(&one.vis) => {
                    format!("pub const {}: {}", one.ident, text(&one.ty))
                }
                _ => continue,
            };
            self.add(module, format!("impl{generics} {ty}{bounds}: {line}"));
        }
    }

    fn is_private(&self, name: &str) -> bool {
        self.private.contains(name) && !self.public.contains(name)
    }
}

fn is_public(visibility: &Visibility) -> bool {
    matches!(visibility, Visibility::Public(_))
}

/// Whether an item is compiled only for tests, for the fuzzer, or for the documentation.
fn is_of_tests(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let condition = text(attribute);
        [
            "#[cfg(test)]",
            "#[cfg(fuzzing)]",
            "#[cfg(doctest)]",
            "#[cfg(doc)]",
        ]
        .contains(&condition.as_str())
            || condition == "#[cfg(any(test, fuzzing))]"
            || condition.starts_with("#[cfg(all(test")
            || condition.starts_with("#[cfg(all(doctest")
    })
}

/// The attributes that change what users can do with a type.
fn marks(attributes: &[Attribute]) -> String {
    let marks = attributes.iter().filter(|attribute| {
        let path = attribute.path();
        path.is_ident("derive") || path.is_ident("non_exhaustive") || path.is_ident("must_use")
    });
    marks.map(|mark| format!(" {}", text(mark))).collect()
}

fn shape(fields: &Fields) -> String {
    let named = fields.iter().map(|field| match &field.ident {
        Some(name) => format!("{name}: {}", text(&field.ty)),
        None => text(&field.ty),
    });
    let named: Vec<String> = named.collect();
    match fields {
        Fields::Named(_) => format!(" {{ {} }}", named.join(", ")),
        Fields::Unnamed(_) => format!("({})", named.join(", ")),
        Fields::Unit => String::new(),
    }
}

fn of_trait(item: TraitItem) -> String {
    match item {
        TraitItem::Fn(one) => {
            let provided = one.default.map_or("", |_| " (provided)");
            format!("{}{provided}", text(&one.sig))
        }
        TraitItem::Const(one) => {
            let provided = one.default.map_or("", |_| " (provided)");
            format!("const {}: {}{provided}", one.ident, text(&one.ty))
        }
        TraitItem::Type(one) => {
            let bounds = text(&one.bounds);
            format!("type {}: {bounds}", one.ident)
        }
        other => text(other),
    }
}

fn text_of(visibility: &Visibility, item: impl ToTokens) -> String {
    format!("{} {}", text(visibility), text(item))
}

/// The last name of a type: `Handle` of `client::Handle<J>`.
fn last_name(ty: &Type) -> String {
    match ty {
        Type::Path(path) => {
            let last = path.path.segments.last();
            last.map_or_else(String::new, |last| last.ident.to_string())
        }
        Type::Reference(reference) => last_name(&reference.elem),
        _ => String::new(),
    }
}

//! The files of a dump as streams, unpacked where they are packed.

use std::{
    fs,
    io::{self, BufReader, Cursor, Read},
    path::PathBuf,
    sync::Arc,
};

use anyhow::{Context as _, Result, bail};
use flate2::read::MultiGzDecoder;
use indicatif::ProgressBar;

use crate::manifest::{self, Input};

/// What files of a directory are part of a dump.
const EXTENSIONS: [&str; 3] = ["yaml", "yml", "json"];
const PACKED: [&str; 2] = ["gz", "zst"];

/// How much standard input may hold, and how much text a file of YAML.
const LARGEST_TEXT: u64 = 1 << 30;

/// One file of a dump. It can be read any number of times.
#[derive(Debug, Clone)]
pub(super) struct File {
    /// How messages name it.
    pub(super) name: String,
    place: Place,
}

#[derive(Debug, Clone)]
enum Place {
    Path(PathBuf),
    /// What came through standard input.
    Held(Arc<[u8]>),
}

/// The files behind some paths; directories with everything below them.
pub(super) fn files(paths: &[PathBuf]) -> Result<Vec<File>> {
    let inputs = manifest::inputs(paths, |name| {
        let plain = PACKED
            .iter()
            .find_map(|packed| name.strip_suffix(packed)?.strip_suffix('.'));
        manifest::ends_with(plain.unwrap_or(name), &EXTENSIONS)
    })?;
    let file = |input| match input {
        Input::File(path) => Ok(File {
            name: path.display().to_string(),
            place: Place::Path(path),
        }),
        Input::Standard => {
            let mut held = Vec::new();
            let mut input = io::stdin().lock().take(LARGEST_TEXT + 1);
            input
                .read_to_end(&mut held)
                .context("cannot read standard input")?;
            if held.len() as u64 > LARGEST_TEXT {
                bail!("standard input is larger than {LARGEST_TEXT} bytes; write it into a file");
            }
            Ok(File {
                name: "standard input".to_owned(),
                place: Place::Held(held.into()),
            })
        }
    };
    inputs.into_iter().map(file).collect()
}

impl File {
    /// How many bytes there are to read.
    pub(super) fn size(&self) -> u64 {
        match &self.place {
            Place::Path(path) => fs::metadata(path).map_or(0, |metadata| metadata.len()),
            Place::Held(held) => held.len() as u64,
        }
    }

    /// Opens it; `bar` moves with the bytes that are read.
    pub(super) fn open(&self, bar: &ProgressBar) -> Result<Box<dyn Read>> {
        let source: Box<dyn Read> = match &self.place {
            Place::Path(path) => Box::new(manifest::open(path)?),
            Place::Held(held) => Box::new(Cursor::new(Arc::clone(held))),
        };
        let mut source = BufReader::with_capacity(256 * 1024, bar.wrap_read(source));
        let cannot = || format!("cannot read {}", self.name);
        let begin = io::BufRead::fill_buf(&mut source).with_context(cannot)?;
        Ok(if begin.starts_with(&[0x1f, 0x8b]) {
            Box::new(MultiGzDecoder::new(source))
        } else if begin.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]) {
            let unpacked = zstd::stream::read::Decoder::with_buffer(source);
            Box::new(unpacked.with_context(cannot)?)
        } else {
            Box::new(source)
        })
    }

    /// Whether it is JSON: begins with a brace or a bracket.
    pub(super) fn is_json(&self) -> Result<bool> {
        let mut source = self.open(&ProgressBar::hidden())?;
        let mut begin = [0; 512];
        loop {
            let count = source.read(&mut begin);
            let count = count.with_context(|| format!("cannot read {}", self.name))?;
            let first = begin[..count]
                .iter()
                .find(|byte| !byte.is_ascii_whitespace());
            match first {
                Some(first) => return Ok(matches!(first, b'{' | b'[')),
                None if count == 0 => return Ok(false),
                None => {}
            }
        }
    }

    /// All of it as text.
    pub(super) fn text(&self, bar: &ProgressBar) -> Result<String> {
        let cannot = || format!("cannot read {}", self.name);
        let mut bytes = Vec::new();
        let mut source = self.open(bar)?.take(LARGEST_TEXT + 1);
        source.read_to_end(&mut bytes).with_context(cannot)?;
        if bytes.len() as u64 > LARGEST_TEXT {
            bail!(
                "{}: more than {LARGEST_TEXT} bytes of YAML; dump with -o json",
                self.name
            );
        }
        match String::from_utf8(bytes) {
            Ok(text) => Ok(text),
            Err(_) => bail!("{}: this is no text, nor packed by gzip or zstd", self.name),
        }
    }
}

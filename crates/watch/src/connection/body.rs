//! The body of an answer, and what lasts until it was read.

use std::{
    any::Any,
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::{Body, Frame, Incoming, SizeHint};

use super::BoxError;

/// A body that holds something until its end.
pub(super) struct CountedBody {
    content: Content,
    held: Vec<Box<dyn Any + Send>>,
}

enum Content {
    Incoming(Incoming),
    Text(Full<Bytes>),
}

impl CountedBody {
    /// What a server sends.
    pub(super) fn incoming(body: Incoming) -> Self {
        Self {
            content: Content::Incoming(body),
            held: Vec::new(),
        }
    }

    /// Our own words.
    pub(super) fn text(text: String) -> Self {
        Self {
            content: Content::Text(Full::new(text.into())),
            held: Vec::new(),
        }
    }

    /// Holds this until the body ends or is dropped.
    pub(super) fn until_read(mut self, held: impl Any + Send) -> Self {
        self.held.push(Box::new(held));
        self
    }
}

impl Body for CountedBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let this = self.get_mut();
        let frame =
            match &mut this.content {
                Content::Incoming(body) => ready!(Pin::new(body).poll_frame(context))
                    .map(|frame| frame.map_err(Into::into)),
                Content::Text(body) => ready!(Pin::new(body).poll_frame(context))
                    .map(|frame| frame.map_err(Into::into)),
            };
        if !matches!(frame, Some(Ok(_))) {
            this.held.clear();
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        match &self.content {
            Content::Incoming(body) => body.is_end_stream(),
            Content::Text(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.content {
            Content::Incoming(body) => body.size_hint(),
            Content::Text(body) => body.size_hint(),
        }
    }
}

//! One connection to one broker: framed requests and answers, one at a time.

use std::time::Duration;

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use ring::rand::{SecureRandom, SystemRandom};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    time::{Instant, timeout},
};

use super::{
    code::Code,
    fault::Fault,
    requests::{Request, SaslAuthenticate, SaslHandshake},
    sasl::{Login, Scram},
    settings::{Broker, Settings},
    wire::{In, Out},
};
use crate::{dial::Dialer, error::SinkError, tls};

/// How brokers know us in their logs and quotas.
const CLIENT: &str = "kollect";
/// How long a broker may take for one step of a login.
const LOGIN: Duration = Duration::from_secs(10);
/// How much of an answer there is room for before it begins to arrive.
const FIRST_PIECE: usize = 64 << 10;

trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

/// A connection that is logged in. A call that was dropped leaves an answer on the way, so whoever
/// drops one drops the connection with it.
pub(super) struct Connection {
    stream: Box<dyn Stream>,
    broker: Broker,
    correlation: i32,
    /// When the broker wants to see credentials again.
    expires: Option<Instant>,
}

impl Connection {
    /// Dials, encrypts and logs in, as the sink says.
    pub(super) async fn open(
        broker: &Broker,
        settings: &Settings,
        dialer: &Dialer,
    ) -> Result<Self, Fault> {
        let Broker { host, port } = broker;
        let stream = dialer.connect(host, *port).await;
        let stream = stream.map_err(|error| Fault::Connect(error.into()))?;
        let stream: Box<dyn Stream> = match &settings.tls {
            None => Box::new(stream),
            Some(config) => {
                let encrypted = tls::handshake(config.clone(), host, stream).await;
                Box::new(encrypted.map_err(Fault::Connect)?)
            }
        };
        let mut connection = Self {
            stream,
            broker: broker.clone(),
            correlation: 0,
            expires: None,
        };
        if let Some(login) = &settings.login {
            connection.log_in(login).await?;
        }
        Ok(connection)
    }

    pub(super) fn is_fresh(&self) -> bool {
        self.expires.is_none_or(|at| Instant::now() < at)
    }

    pub(super) fn broker(&self) -> &Broker {
        &self.broker
    }

    /// One request and its answer.
    pub(super) async fn request<R: Request>(
        &mut self,
        request: &R,
        limit: Duration,
    ) -> Result<R::Answer, Fault> {
        match timeout(limit, self.exchange(request)).await {
            Ok(answer) => answer,
            Err(_) => Err(Fault::Silent {
                broker: self.broker.clone(),
                limit,
            }),
        }
    }

    async fn exchange<R: Request>(&mut self, request: &R) -> Result<R::Answer, Fault> {
        self.correlation = self.correlation.wrapping_add(1);
        let mut out = Out(vec![0; 4]);
        out.i16(R::KEY);
        out.i16(R::VERSION);
        out.i32(self.correlation);
        out.text(CLIENT);
        request.write(&mut out);
        let mut frame = out.0;
        let length = u32::try_from(frame.len() - 4).map_err(|_| self.garbled())?;
        frame[..4].copy_from_slice(&length.to_be_bytes());
        let broken = |error| Fault::Broken {
            broker: self.broker.clone(),
            error,
        };
        self.stream.write_all(&frame).await.map_err(broken)?;
        self.stream.flush().await.map_err(broken)?;
        drop(frame);
        let answer = self.frame(R::ANSWER).await?;
        let mut answer = In(&answer);
        if answer.i32() != Ok(self.correlation) {
            return Err(self.garbled());
        }
        R::read(&mut answer).map_err(|_| self.garbled())
    }

    /// An answer of at most `limit` bytes; memory follows what arrives, not what is announced.
    async fn frame(&mut self, limit: usize) -> Result<Vec<u8>, Fault> {
        let broker = &self.broker;
        let broken = |error| Fault::Broken {
            broker: broker.clone(),
            error,
        };
        let length = self.stream.read_i32().await.map_err(broken)?;
        let Ok(length) = usize::try_from(length) else {
            return Err(self.garbled());
        };
        if length > limit {
            return Err(self.garbled());
        }
        let mut answer = Vec::with_capacity(length.min(FIRST_PIECE));
        let mut rest = (&mut self.stream).take(length as u64);
        while answer.len() < length {
            if rest.read_buf(&mut answer).await.map_err(broken)? == 0 {
                return Err(broken(std::io::ErrorKind::UnexpectedEof.into()));
            }
        }
        Ok(answer)
    }

    fn garbled(&self) -> Fault {
        Fault::Garbled {
            broker: self.broker.clone(),
        }
    }

    async fn log_in(&mut self, login: &Login) -> Result<(), Fault> {
        let mechanism = login.mechanism.as_str();
        let shaken = self.request(&SaslHandshake(mechanism), LOGIN).await;
        // A listener without SASL hangs up when it is asked for it.
        let shaken = shaken.map_err(|fault| match fault {
            Fault::Broken { broker, .. } => Fault::NoSasl { broker },
            other => other,
        })?;
        if shaken.code == Code::UNSUPPORTED_SASL_MECHANISM {
            return Err(Fault::Mechanism {
                offered: shaken.offered,
                wanted: mechanism,
            });
        }
        shaken.code.check().map_err(|code| self.refused(code))?;
        if let Some(bytes) = login.at_once() {
            let answer = self.step(&bytes).await?;
            if answer.is_empty() {
                return Ok(());
            }
            // A refused token is explained first; the refusal itself has to be asked for.
            self.step(b"\x01").await?;
            return Err(self.refused(Code::SASL_AUTHENTICATION_FAILED));
        }
        let mut nonce = [0; 18];
        let random = SystemRandom::new().fill(&mut nonce);
        random.map_err(|_| {
            Fault::Connect(SinkError::transient("the system gives no random numbers"))
        })?;
        let scram = Scram::new(login, URL_SAFE_NO_PAD.encode(nonce));
        let challenge = self.step(scram.opening().as_bytes()).await?;
        let proof = scram.answer(&challenge).map_err(Fault::Misstep)?;
        let last = self.step(proof.text.as_bytes()).await?;
        proof.check(&last).map_err(Fault::Misstep)
    }

    async fn step(&mut self, bytes: &[u8]) -> Result<Vec<u8>, Fault> {
        let step = self.request(&SaslAuthenticate(bytes), LOGIN).await?;
        step.code.check().map_err(|code| self.refused(code))?;
        if let Ok(lifetime @ 1..) = u64::try_from(step.lifetime) {
            // A little early: a request must not meet the end.
            let lifetime = Duration::from_millis(lifetime.min(86_400_000)) * 4 / 5;
            self.expires = Some(Instant::now() + lifetime);
        }
        Ok(step.bytes)
    }

    fn refused(&self, code: Code) -> Fault {
        Fault::Login {
            broker: self.broker.clone(),
            code,
        }
    }
}

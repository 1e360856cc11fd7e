# kbert by JAX on a TPU VM: docker run --rm --privileged --net=host kbert-tpu pretrain --help
FROM python:3.12-slim
WORKDIR /src
COPY pyproject.toml README.md LICENSE ./
COPY kbert kbert
RUN pip install --no-cache-dir ".[tpu]"
WORKDIR /data
ENV KERAS_BACKEND=jax
ENTRYPOINT ["kbert"]
CMD ["--help"]

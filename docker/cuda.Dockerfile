# kbert on NVIDIA GPUs: docker build -f docker/cuda.Dockerfile -t kbert-cuda . && docker run --rm --gpus all kbert-cuda pretrain --help
# For TensorFlow: --build-arg EXTRA=tensorflow-cuda --build-arg BACKEND=tensorflow; for torch: EXTRA=torch, BACKEND=torch
FROM python:3.12-slim
ARG EXTRA=jax-cuda
ARG BACKEND=jax
WORKDIR /src
COPY pyproject.toml README.md LICENSE ./
COPY kbert kbert
RUN pip install --no-cache-dir ".[${EXTRA}]"
WORKDIR /data
ENV KERAS_BACKEND=${BACKEND} \
    NVIDIA_VISIBLE_DEVICES=all \
    NVIDIA_DRIVER_CAPABILITIES=compute,utility \
    TF_CPP_MIN_LOG_LEVEL=3
ENTRYPOINT ["kbert"]
CMD ["--help"]

# kbert on a CPU: docker build -f docker/cpu.Dockerfile -t kbert . && docker run --rm kbert account base
FROM python:3.12-slim
WORKDIR /src
COPY pyproject.toml README.md LICENSE ./
COPY kbert kbert
RUN pip install --no-cache-dir ".[tensorflow]"
WORKDIR /data
ENV TF_CPP_MIN_LOG_LEVEL=3
ENTRYPOINT ["kbert"]
CMD ["--help"]
